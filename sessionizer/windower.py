"""Windower: events of one partition in event-time order → sessions, and the rows of those that closed.

Owns users, sessions and what each sample may see of its user's history. Sees only complete event time (arrivals
released by the watermark), so sessions never merge and never reopen. Never looks at features.

The rules, in order of (event time, event id):
1. A session whose last event is at least `gap_ms` old closes; close_ms = last + gap.
2. An event joins its user's session, unless that part is full (`max_samples`) or old (`max_age_ms`): then the part is
   cut off, close_ms = event time + 1, and the event starts the next part of the same session.
3. With more than `max_held_samples` samples open, the session longest silent leaves as a part, close_ms likewise.

Open sessions form a list in order of their last event, so rules 1 and 3 look at its head only.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from sessionizer import history
from sessionizer.arrivals import MAX_MS, MIN_MS
from sessionizer.config import SessionConfig
from sessionizer.hash_table import MIN_SIZE, Table, mix64, probe, rebuild
from sessionizer.history import CHAIN, NONE, Histories
from sessionizer.rows import Rows

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

_INDEX = np.dtype([("key", "i8"), ("slot", "i4"), ("used", "i4")])
_USER = np.dtype(
    [
        ("user", "i8"),
        ("first_ms", "i8"),  # first event of the open part
        ("last_ms", "i8"),  # last event of the session; MIN_MS: none in this epoch
        ("visible_ms", "i8"),  # entries with a smaller time are visible
        ("session_id", "u8"),
        ("head", "i4"),  # rows of the open part, linked by `next`
        ("tail", "i4"),
        ("size", "i4"),
        ("newer", "i4"),  # neighbours in the list of open sessions
        ("older", "i4"),
        ("spare", "i4"),
    ]
)
_LIST = np.dtype([("oldest", "i8"), ("newest", "i8"), ("num_open", "i8"), ("num_samples", "i8"), ("num_users", "i8")])
CLOSING = np.dtype(
    [
        ("close_ms", "i8"),
        ("user", "i8"),
        ("first_ms", "i8"),
        ("first_id", "u8"),
        ("session_id", "u8"),
        ("slot", "i4"),
        ("head", "i4"),
        ("size", "i4"),
        ("cut", "i4"),  # 1: a cap cut it off before its session ended
    ]
)


@nb.njit(cache=True, nogil=True)
def _unlink(users: Any, order: Any, s: Any) -> None:
    older, newer = users[s].older, users[s].newer
    if older != NONE:
        users[older].newer = newer
    else:
        order[0].oldest = newer
    if newer != NONE:
        users[newer].older = older
    else:
        order[0].newest = older
    order[0].num_open -= 1


@nb.njit(cache=True, nogil=True)
def _link(users: Any, order: Any, s: Any) -> None:
    newest = order[0].newest
    users[s].older, users[s].newer = newest, NONE
    if newest != NONE:
        users[newest].newer = s
    else:
        order[0].oldest = s
    order[0].newest = s
    order[0].num_open += 1


@nb.njit(cache=True, nogil=True)
def _close(users: Any, order: Any, keys: Any, s: Any, close_ms: Any, cut: Any, closings: Any, num: Any) -> Any:
    """Move the open part of a user to `closings`; the session itself goes on if more comes within the gap."""
    closing, user = closings[num], users[s]
    closing.close_ms, closing.user, closing.first_ms = close_ms, user.user, user.first_ms
    closing.first_id, closing.session_id = keys[user.head].id, user.session_id
    closing.slot, closing.head, closing.size, closing.cut = s, user.head, user.size, cut
    order[0].num_samples -= user.size
    user.size = 0
    _unlink(users, order, s)
    return num + 1


@nb.njit(cache=True, nogil=True)
def _expire(users: Any, order: Any, keys: Any, now_ms: Any, gap_ms: Any, closings: Any, num: Any) -> Any:
    while order[0].oldest != NONE and users[order[0].oldest].last_ms + gap_ms <= now_ms:
        s = order[0].oldest
        num = _close(users, order, keys, s, users[s].last_ms + gap_ms, 0, closings, num)
    return num


@nb.njit(cache=True, nogil=True)
def _slot_of(index: Any, users: Any, chains: Any, order: Any, user: Any) -> Any:
    at = probe(index, user)
    if index[at].used == 0:
        slot = order[0].num_users
        order[0].num_users += 1
        index[at].key, index[at].slot, index[at].used = user, slot, 1
        users[slot].user, users[slot].last_ms, users[slot].visible_ms, users[slot].size = user, MIN_MS, MIN_MS, 0
        history.start(chains, slot)
    return index[at].slot


@nb.njit(cache=True, nogil=True)
def _join(users: Any, order: Any, keys: Any, s: Any, r: Any, gap_ms: Any) -> None:
    """Add a row to its user's open part, opening a part, or a session, where there is none."""
    user, t = users[s], keys[r].time
    if user.size == 0:
        if user.last_ms == MIN_MS or t - user.last_ms >= gap_ms:
            user.session_id = mix64(mix64(np.uint64(keys[r].user)) ^ keys[r].id)
        user.first_ms, user.head = t, r
    else:
        keys[user.tail].next = r
        _unlink(users, order, s)
    keys[r].next = NONE
    user.tail, user.last_ms = r, t
    user.size += 1
    order[0].num_samples += 1
    _link(users, order, s)


@nb.njit(cache=True, nogil=True)
def _see(users: Any, s: Any, rows: Any, r: Any, book: Any) -> None:
    """Give the row its view of the history, then add its item for those that come later."""
    keys, items, enters_RH, ends_RH, tips_RH = rows
    entries, free, num_free, chains, last = book
    t = keys[r].time
    if t < users[s].visible_ms:
        num_free[0] = history.forget(entries, free, num_free[0], chains, s)
    if t != users[s].visible_ms:
        history.show(chains, s)
        users[s].visible_ms = t
    history.remember(chains, s, last, ends_RH, tips_RH, r)
    for h in range(len(last)):
        if enters_RH[r, h]:
            num_free[0] = history.append(entries, free, num_free[0], chains[s, h], items[r], last[h])


@nb.njit(cache=True, nogil=True)
def _assign(released: Any, rows: Any, sessions: Any, book: Any, limits: Any, closings: Any) -> Any:
    keys, (index, users, order) = rows[0], sessions
    gap_ms, max_samples, max_age_ms, max_held = limits
    num = 0
    for i in range(len(released)):
        r = released[i]
        t = keys[r].time
        num = _expire(users, order, keys, t, gap_ms, closings, num)
        s = _slot_of(index, users, book[3], order, keys[r].user)
        if users[s].size >= max_samples or (users[s].size > 0 and t - users[s].first_ms >= max_age_ms):
            num = _close(users, order, keys, s, t + 1, 1, closings, num)
        _see(users, s, rows, r, book)
        _join(users, order, keys, s, r, gap_ms)
        if order[0].num_samples > max_held:
            num = _close(users, order, keys, order[0].oldest, t + 1, 1, closings, num)
    return num


@nb.njit(cache=True, nogil=True)
def _walk(heads: Any, sizes: Any, keys: Any, rows: Any) -> None:
    at = 0
    for c in range(len(heads)):
        r = heads[c]
        for _ in range(sizes[c]):
            rows[at] = r
            at += 1
            r = keys[r].next


class Windower:
    """Users and sessions of one partition."""

    def __init__(self, config: SessionConfig, histories: Histories) -> None:
        self._config = config
        self._histories = histories
        self._index: Table = np.zeros(MIN_SIZE, _INDEX)
        self._users = np.zeros(MIN_SIZE, _USER)
        self._chains = np.zeros((MIN_SIZE, len(histories.last)), CHAIN)
        self._order = np.array([(NONE, NONE, 0, 0, 0)], _LIST)

    @property
    def num_open_sessions(self) -> int:
        """Parts of sessions that may still grow."""
        return int(self._order[0]["num_open"])

    @property
    def num_samples(self) -> int:
        """Samples in them."""
        return int(self._order[0]["num_samples"])

    def advance(self, released: I32, rows: Rows, watermark_ms: int) -> npt.NDArray[np.void]:
        """Assign released rows, close what the watermark has passed; CLOSING records in packing order.

        Packing order is (close_ms, user, first event). Every closing of one call has a close_ms in (watermark of
        the call before, watermark_ms], so the order over all calls does not depend on how they were divided.
        """
        self._make_room(len(released))
        closings = np.empty(self.num_open_sessions + 3 * len(released), CLOSING)
        c, book = self._config, self._histories
        num = _assign(
            released,
            (rows.keys, rows.items, rows.enters, rows.ends, rows.tips),
            (self._index, self._users, self._order),
            (book.entries, book.free, book.num_free, self._chains, book.last),
            (c.gap_ms, c.max_samples, c.max_age_ms, c.max_held_samples),
            closings,
        )
        num = _expire(self._users, self._order, rows.keys, watermark_ms, c.gap_ms, closings, num)
        done = closings[:num]
        return done[np.lexsort((done["first_id"], done["first_ms"], done["user"], done["close_ms"]))]

    def end_epoch(self, released: I32, rows: Rows) -> npt.NDArray[np.void]:
        """Assign released rows and close every session; what comes later starts new ones."""
        closings = self.advance(released, rows, MAX_MS)
        self._users["last_ms"] = MIN_MS
        return closings

    def rows_of(self, closings: npt.NDArray[np.void], rows: Rows) -> I32:
        """Rows of all closings, one closing after the other, each in event-time order."""
        found = np.empty(int(closings["size"].sum()), np.int32)
        _walk(closings["head"], closings["size"], rows.keys, found)
        return found

    def release(self, closings: npt.NDArray[np.void], rows: Rows) -> None:
        """The histories of these closings have been read: stop holding on to their entries."""
        history.repin(self._chains, self._users, self._histories.last, closings["slot"], rows.ends)

    def _make_room(self, n: int) -> None:
        self._histories.make_room(n)
        num_users = int(self._order[0]["num_users"])
        if num_users + n > len(self._users):
            room = num_users + 2 * n
            self._users = np.concatenate([self._users, np.zeros(room, _USER)])
            self._chains = np.concatenate([self._chains, np.zeros((room, self._chains.shape[1]), CHAIN)])
        if 2 * (num_users + n) > len(self._index):
            self._index = rebuild(self._index, self._index["used"] == 1, room_for=num_users + 2 * n)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """State for a cut."""
        n = int(self._order[0]["num_users"])
        return {"users": self._users[:n], "chains": self._chains[:n], "order": self._order}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """State from a cut."""
        self._order = arrays["order"].copy()
        self._users, self._chains = arrays["users"].copy(), arrays["chains"].copy()
        index = np.zeros(len(self._users), _INDEX)
        index["key"], index["slot"], index["used"] = self._users["user"], np.arange(len(index)), 1
        self._index = rebuild(index, np.ones(len(index), np.bool_), room_for=len(index))
