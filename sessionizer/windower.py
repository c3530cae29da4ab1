"""Windower: events of one partition in event-time order → sessions, and the rows of those that may leave.

Owns users, sessions and what each sample may see of its user's history. Sees only complete event time (arrivals
released by the watermark), so sessions never merge and never reopen. Never looks at features.

The rules, in order of (event time, event id):
1. A session whose last sample is at least `gap_ms` old closes; close_ms = last + gap.
2. A sample joins its user's session, unless that part is full (`max_samples`) or old (`max_age_ms`): then the part is
   cut off, close_ms = event time + 1, and the sample starts the next part of the same session.
3. What is closed leaves when all its samples are ripe (`join`): ready_ms, at least close_ms.
4. With more than `max_held_samples` samples held, the closed session that would be ready first leaves at once; if
   none waits, the open one longest silent leaves as a part. ready_ms = event time + 1 likewise.
5. When samples have waited long enough by the wall clock (`batch.fresh = "parts"`), the ripe ones of open and waiting
   sessions leave as parts, in order.
6. Under `correct` sessions leave without waiting for labels (ready_ms = close_ms); what leaves before its window is
   over is remembered (`corrections`). Remembered samples count as held for rule 4, and go first.
7. An outcome opens and prolongs no session. It acts when event time has passed it by `early_ms`: on the labels of its
   impression, and by its item on the histories that hold what was positive.

Open sessions form a list in order of their last sample, so rules 1 and 4 look at its head only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sessionizer import history, residents, sessions
from sessionizer.arrivals import MAX_MS, MIN_MS
from sessionizer.config import SessionConfig
from sessionizer.corrections import REMEMBERED, Memory
from sessionizer.growing import grown
from sessionizer.hash_table import MIN_SIZE, Table, rebuild
from sessionizer.history import CHAIN, NONE, Histories
from sessionizer.join import Joins
from sessionizer.rows import Rows
from sessionizer.sessions import BOOK, INDEX, USER
from sessionizer.waiting import CLOSING, Waiting
from state.profiles import Profiles

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


class Windower:
    """Users and sessions of one partition."""

    def __init__(self, config: SessionConfig, histories: Histories, joins: Joins, memory: Memory) -> None:
        self._config = config
        self._histories = histories
        self._joins = joins
        self._waiting = Waiting()
        self.memory = memory
        self._index: Table = np.zeros(MIN_SIZE, INDEX)
        self._users = np.zeros(MIN_SIZE, USER)
        self._chains = np.zeros((MIN_SIZE, len(histories.last)), CHAIN)
        self._book = np.array([(NONE, NONE, 0, 0, 0, 0, 0, 0)], BOOK)
        self._pending = np.zeros(0, np.int32)
        self._passed_ms = MIN_MS
        """Every released row lies at or after it."""

    @property
    def num_open_sessions(self) -> int:
        """Parts of sessions that may still grow."""
        return int(self._book[0]["num_open"])

    @property
    def num_waiting_sessions(self) -> int:
        """Parts of sessions that are over and wait for their labels."""
        return self._waiting.num_waiting

    @property
    def num_samples(self) -> int:
        """Samples in them."""
        return int(self._book[0]["num_samples"])

    def advance(self, released: I32, rows: Rows, watermark_ms: int) -> npt.NDArray[np.void]:
        """Take in released rows and let event time reach the watermark; CLOSING records in packing order.

        Packing order is (ready_ms, user, first event). Every closing of one call has a ready_ms in (watermark of
        the call before, watermark_ms], so the order over all calls does not depend on how they were divided. Rows of
        outcomes that have acted are freed.
        """
        self._make_room(len(released))
        closings = self._room_for_closings(3 * len(released))
        c, book = self._config, self._book[0]
        sessions.advance(
            released,
            (rows.keys, rows.items, rows.labels, rows.enters, rows.ends, rows.tips),
            self._state_with(rows),
            self._lore,
            self._pending,
            (c.gap_ms, c.max_samples, c.max_age_ms, c.max_held_samples),
            watermark_ms,
            closings,
        )
        self._passed_ms = watermark_ms
        rows.free(self._pending[: book["num_acted"]].copy())
        self._pending = self._pending[book["num_acted"] : book["num_pending"]]
        self._book["num_pending"], self._book["num_acted"] = len(self._pending), 0
        return self._in_packing_order(closings)

    def send_ripe(self, rows: Rows, watermark_ms: int) -> npt.NDArray[np.void]:
        """Ripe samples of sessions that are open or wait, as parts of them; CLOSING records in packing order.

        No result depends on when polls end, as long as this is called after the same event.
        """
        self._waiting.make_room(0, self.num_waiting_sessions)
        self.memory.make_room(self.num_samples, 0)
        closings = self._room_for_closings(0)
        sessions.send_ripe(rows.keys, self._state_with(rows), watermark_ms, closings)
        return self._in_packing_order(closings)

    def _room_for_closings(self, more: int) -> npt.NDArray[np.void]:
        return np.empty(self.num_open_sessions + self.num_waiting_sessions + more + 1, CLOSING)

    def _in_packing_order(self, closings: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        done = closings[: self._book[0]["num_closings"]]
        self._book["num_closings"] = 0
        return done[np.lexsort((done["first_id"], done["first_ms"], done["user"], done["ready_ms"]))]

    def end_epoch(self, released: I32, rows: Rows) -> npt.NDArray[np.void]:
        """Take in released rows and send off every session; what comes later starts new ones."""
        closings = self.advance(released, rows, MAX_MS)
        self._users["last_ms"] = MIN_MS
        self._joins.end_epoch()
        self._passed_ms = MIN_MS
        return closings

    def rows_of(self, closings: npt.NDArray[np.void], rows: Rows) -> I32:
        """Rows of all closings, one closing after the other, each in event-time order."""
        found = np.empty(int(closings["size"].sum()), np.int32)
        sessions.walk(closings["head"], closings["size"], rows.keys, found)
        return found

    def release(self, closings: npt.NDArray[np.void], leaving: I32, rows: Rows) -> I32:
        """The histories of these closings have been read: stop holding on to their entries.

        `leaving` are their rows. Returns the rows that nothing is expected of any more: those that may be corrected
        stay, and those that may be corrected no longer go now.
        """
        forgotten = self.memory.take_forgotten()
        if not len(closings) and not len(forgotten):
            return leaving
        slots = np.empty(len(forgotten), np.int32)
        if len(forgotten):
            residents.find(self._index, rows.keys["user"][forgotten], slots)
        slots = np.concatenate([closings["slot"], slots])
        waiting_heads = self._waiting.table["head"]
        history.repin(self._chains, self._users, self._histories.last, slots, rows.ends, waiting_heads)
        if not self.memory.corrects:
            return leaving
        # A row may have left and been forgotten in one call.
        done = np.unique(np.concatenate([leaving, forgotten]))
        return np.asarray(done[rows.keys["slot"][done] > REMEMBERED])

    def erase(self, users: I64, marked: npt.NDArray[np.bool_]) -> None:
        """Forget all that is known of these users; `marked` tells which rows are theirs."""
        sessions.erase(users, self._state, self._lore)
        self._pending = self._pending[~marked[self._pending]]
        self._book["num_pending"] = len(self._pending)
        self._joins.erase(users)
        self.memory.erase(marked)

    @property
    def _state(self) -> tuple[Any, ...]:
        room, joining = self._waiting.arrays_of_kernels, self._joins.arrays_of_kernels
        return self._index, self._users, self._book, room, joining

    def _state_with(self, rows: Rows) -> tuple[Any, ...]:
        return *self._state, self.memory.arrays_of_kernels(rows.sessions, rows.so_far)

    @property
    def _lore(self) -> tuple[Any, ...]:
        lore = self._histories
        return lore.entries, lore.free, lore.num_free, self._chains, lore.last

    def _make_room(self, n: int) -> None:
        num_pending = len(self._pending)
        self._histories.make_room(n + num_pending)
        self._joins.make_room(n, self._passed_ms)
        self._waiting.make_room(self.num_open_sessions + n, n + num_pending)
        self.memory.make_room(self.num_samples + n, n + num_pending)
        self._pending = np.concatenate([self._pending, np.empty(n, np.int32)])
        self._make_room_for_users(n + num_pending)

    def _make_room_for_users(self, more: int) -> None:
        num_users = self.num_users
        if num_users + more > len(self._users):
            room = num_users + 2 * more
            self._users = grown(self._users, len(self._users) + room, num_users)
            self._chains = grown(self._chains, len(self._chains) + room, num_users)
        if 2 * (num_users + more) > len(self._index):
            self._index = rebuild(self._index, self._index["used"] == 1, room_for=more)

    @property
    def num_users(self) -> int:
        """Users it knows."""
        return int(self._book[0]["num_users"])

    def unknown(self, users: I64) -> I64:
        """Which of these distinct users it does not know."""
        slots = np.empty(len(users), np.int32)
        residents.find(self._index, users, slots)
        return np.asarray(users[slots == NONE])

    def settle(self, profiles: Profiles) -> None:
        """Take in users it does not know, with what is remembered of them."""
        self._make_room_for_users(len(profiles))
        self._histories.make_entries(len(profiles.item))
        residents.settle(profiles, self._state, self._lore)

    def changed(self) -> Profiles:
        """Profiles of the users whose entries have changed since the last call."""
        n = self.num_users
        slots = np.flatnonzero(np.any(self._chains["changed"][:n] == 1, axis=1))
        self._chains["changed"][:n] = 0
        lore = self._histories
        return residents.gather(self._users["user"][slots], self._chains[slots], lore.entries, lore.last)

    def change_all(self) -> None:
        """Take every user with entries for changed: none of them has been put anywhere yet."""
        self._chains["changed"] = self._chains["total"] > 0

    def busy(self, rows: Rows, also: I64) -> npt.NDArray[np.bool_]:
        """Which users have an event that is held, or a session that may go on, and those named too: [num_users]."""
        users = self._users[: self.num_users]
        last_ms = users["last_ms"]
        busy = np.asarray((last_ms != MIN_MS) & (last_ms + self._config.gap_ms > self._passed_ms))
        users_of_rows = np.concatenate([rows.keys["user"][rows.live], also])
        slots = np.empty(len(users_of_rows), np.int32)
        residents.find(self._index, users_of_rows, slots)
        busy[slots[slots != NONE]] = True
        return busy

    def evict(self, most: int, rows: Rows, also: I64) -> None:
        """Leave at most so many users: those go that are not busy, those first of whom nothing was seen for longest.

        Their profiles must be somewhere else. `also`: users to be kept as if they were busy.
        """
        keep = self.busy(rows, also)
        spare = np.flatnonzero(~keep)
        excess = self.num_users - most
        if excess <= 0 or not len(spare):
            return
        seen = residents.recency(self._users[spare], self._chains[spare])
        keep[spare[np.argsort(seen, kind="stable")[excess:]]] = True
        own, lore, moved = self._moved(keep)
        self._histories.restore(lore)
        self._restore_users(own)
        rows.tips = residents.renamed(rows.tips, moved)

    def arrays_of_busy(
        self, rows: Rows, also: I64
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]], I32]:
        """State for a cut that holds busy users only: as `arrays`, the entries, and the tips of rows among these."""
        own, lore, moved = self._moved(self.busy(rows, also))
        return self.arrays() | own, lore, residents.renamed(rows.tips, moved)

    def _moved(
        self, keep: npt.NDArray[np.bool_]
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]], I32]:
        """The state with the kept users only, their entries side by side, and where each entry has gone."""
        slots = np.flatnonzero(keep)
        new = np.full(len(keep), NONE, np.int32)
        new[slots] = np.arange(len(slots))
        users, chains, book, table = (
            self._users[slots],
            self._chains[slots],
            self._book.copy(),
            self._waiting.table.copy(),
        )
        for side in ("newer", "older"):
            users[side] = residents.renamed(np.where(users["size"] > 0, users[side], NONE), new)
        book["oldest"], book["newest"] = (
            residents.renamed(book[end].astype(np.int32), new) for end in ("oldest", "newest")
        )
        book["num_users"] = len(slots)
        table["slot"] = residents.renamed(table["slot"], new)
        entries, moved = residents.together(chains, self._histories.entries)
        own = {"users": users, "chains": chains, "book": book, "waiting_table": table}
        return own, {"entries": entries, "free": np.zeros(0, np.int32)}, moved

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """State for a cut."""
        n = self.num_users
        own = {"users": self._users[:n], "chains": self._chains[:n], "book": self._book, "pending": self._pending}
        waiting = {f"waiting_{name}": array for name, array in self._waiting.arrays().items()}
        return own | waiting | {f"memory_{name}": array for name, array in self.memory.arrays().items()}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """State from a cut."""
        self._pending = arrays["pending"]
        self._waiting.restore({name: arrays[f"waiting_{name}"] for name in ("table", "free")})
        self.memory.restore({name: arrays[f"memory_{name}"] for name in ("heap", "book")})
        self._restore_users(arrays)

    def _restore_users(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self._book, self._waiting.table = arrays["book"].copy(), arrays["waiting_table"].copy()
        self._users, self._chains = arrays["users"].copy(), arrays["chains"].copy()
        index = np.zeros(len(self._users), INDEX)
        index["key"], index["slot"], index["used"] = self._users["user"], np.arange(len(index)), 1
        self._index = rebuild(index, np.ones(len(index), np.bool_), room_for=len(index))
