"""Histories: each user's last items as linked entries, read as they stood strictly before a sample.

Owns the entries. A user's entries form one chain per history, numbered 0, 1, 2… from the first; a sample remembers
how many of them it may see (`end`) and the newest of these (`tip`). Entries that no future sample and no held sample
can see are freed at once, so memory is bounded by users × last plus what is held. Point in time: entries of one
millisecond become visible together, at the next millisecond. What a chain shows depends on its entries alone, never
on the samples that have looked at it: so a chain that was put away and brought back shows the same.

Shape suffixes: H histories, R rows, W rows to read, V values.
"""

from __future__ import annotations

from typing import Any, Final

import numba as nb
import numpy as np
import numpy.typing as npt

from sessionizer.arrivals import MIN_MS
from streams.events.event import ListColumn
from streams.events.schema import History
from streams.ikjt.jagged import Jagged, offsets_of

NONE: Final = -1
UNPINNED: Final = 2**62

ENTRY = np.dtype(
    [
        ("item", "i8"),
        ("time", "i8"),  # event time at which it entered: samples after it see it
        ("offset", "i8"),  # of the record that says so
        ("older", "i4"),
        ("newer", "i4"),
    ]
)
CHAIN = np.dtype(
    [
        ("total", "i8"),  # entries ever appended
        ("visible", "i8"),  # of these, the ones with a time before `newest_ms`
        ("first", "i8"),  # number of the oldest entry that is still kept
        ("pin", "i8"),  # smallest entry number that a held sample may still read
        ("newest_ms", "i8"),  # time of the newest entry; MIN_MS: there is none
        ("newest", "i4"),
        ("oldest", "i4"),
        ("tip", "i4"),  # newest entry with a time before `newest_ms`
        ("changed", "i4"),  # 1: since the last cut
    ]
)


@nb.njit(cache=True, nogil=True)
def _empty(chain: Any) -> None:
    chain.total = chain.visible = chain.first = 0
    chain.newest = chain.oldest = chain.tip = NONE
    chain.newest_ms = MIN_MS
    chain.pin = UNPINNED


@nb.njit(cache=True, nogil=True)
def start(chains: Any, user: Any) -> None:
    """Empty chains for a new user."""
    for h in range(chains.shape[1]):
        _empty(chains[user, h])
        chains[user, h].changed = 0


@nb.njit(cache=True, nogil=True)
def _drop(entries: Any, free: Any, num_free: Any, chain: Any) -> Any:
    at = chain.newest
    while at != NONE:
        free[num_free] = at
        num_free += 1
        at = entries[at].older
    _empty(chain)
    chain.changed = 1
    return num_free


@nb.njit(cache=True, nogil=True)
def forget(entries: Any, free: Any, num_free: Any, chains: Any, user: Any) -> Any:
    """Drop all entries of a user; returns the new number of free entries."""
    for h in range(chains.shape[1]):
        num_free = _drop(entries, free, num_free, chains[user, h])
    return num_free


@nb.njit(cache=True, nogil=True)
def look(chains: Any, user: Any, lore: Any, t: Any, ends_H: Any, tips_H: Any) -> Any:
    """Note for a row of time `t` what it may see, and pin that; returns the new number of free entries.

    Where event time has gone back (a new epoch), entries would be the future: their chain is dropped.
    """
    entries, free, num_free, last = lore
    for h in range(chains.shape[1]):
        chain = chains[user, h]
        if t < chain.newest_ms:
            num_free = _drop(entries, free, num_free, chain)
        if t > chain.newest_ms:
            ends_H[h], tips_H[h] = chain.total, chain.newest
        else:
            ends_H[h], tips_H[h] = chain.visible, chain.tip
        chain.pin = min(chain.pin, max(0, ends_H[h] - last[h]))
    return num_free


@nb.njit(cache=True, nogil=True)
def append(entries: Any, free: Any, num_free: Any, chain: Any, new: Any, last: Any) -> Any:
    """Add `new` (item, time, offset) to one chain and free what nobody can see any more; as above."""
    item, time, offset = new
    if time < chain.newest_ms:
        num_free = _drop(entries, free, num_free, chain)
    if time > chain.newest_ms:
        chain.visible, chain.tip, chain.newest_ms = chain.total, chain.newest, time
    num_free -= 1
    at = free[num_free]
    entries[at].item, entries[at].time, entries[at].offset = item, time, offset
    entries[at].older, entries[at].newer = chain.newest, NONE
    if chain.newest != NONE:
        entries[chain.newest].newer = at
    else:
        chain.oldest = at
    chain.newest = at
    chain.total += 1
    chain.changed = 1
    # A later sample of this very millisecond sees up to `visible`, not up to `total`.
    keep_from = min(chain.visible - last, chain.pin)
    while chain.first < keep_from and chain.oldest != at:
        gone = chain.oldest
        chain.oldest = entries[gone].newer
        entries[chain.oldest].older = NONE
        free[num_free] = gone
        num_free += 1
        chain.first += 1
    return num_free


@nb.njit(cache=True, nogil=True)
def repin(chains: Any, users: Any, last: Any, slots: Any, ends_RH: Any, waiting_heads: Any) -> None:
    """After rows were read: pin only what these users' held rows, the earliest of them first, may still read."""
    for i in range(len(slots)):
        user = slots[i]
        earliest = users[user].head if users[user].size > 0 else NONE
        if users[user].waiting_head != NONE:
            earliest = waiting_heads[users[user].waiting_head]
        if users[user].remembered_head != NONE:
            earliest = users[user].remembered_head
        for h in range(chains.shape[1]):
            chains[user, h].pin = UNPINNED
            if earliest != NONE:
                chains[user, h].pin = max(0, ends_RH[earliest, h] - last[h])


@nb.njit(cache=True, nogil=True)
def _read(entries: Any, tips_W: Any, lengths_W: Any, offsets: Any, values_V: Any) -> None:
    for w in range(len(tips_W)):
        at = tips_W[w]
        for place in range(offsets[w] + lengths_W[w] - 1, offsets[w] - 1, -1):
            values_V[place] = entries[at].item
            at = entries[at].older


class Histories:
    """Entries of all users of one partition. The chains and row columns live with the windower's users and rows."""

    def __init__(self, histories: tuple[History, ...]) -> None:
        self.declared = histories
        self.last = np.array([history.last for history in histories], np.int64)
        self.fingerprint = [[history.name, history.last, history.label] for history in histories]
        """What entries of a cut must have been kept for."""
        self.entries = np.zeros(0, ENTRY)
        self.free = np.zeros(0, np.int32)
        self.num_free = np.zeros(1, np.int64)

    def make_room(self, num_rows: int) -> None:
        """At least one free entry for each of `num_rows` rows in each history."""
        self.make_entries(num_rows * len(self.last))

    def make_entries(self, num: int) -> None:
        """At least so many free entries."""
        missing = num - int(self.num_free[0])
        if missing <= 0:
            return
        old, grown = len(self.entries), len(self.entries) + max(missing, len(self.entries), 1024)
        self.entries = np.concatenate([self.entries, np.zeros(grown - old, ENTRY)])
        self.free = np.concatenate([self.free[: self.num_free[0]], np.arange(grown - 1, old - 1, -1, dtype=np.int32)])
        self.num_free[0] = len(self.free)
        self.free = np.concatenate([self.free, np.empty(grown - len(self.free), np.int32)])

    def read(self, ends_WH: npt.NDArray[np.int64], tips_WH: npt.NDArray[np.int32]) -> tuple[ListColumn, ...]:
        """What each of W rows sees, one column a history; neighbours that see the same share a row."""
        return tuple(self._read_one(ends_WH[:, h], tips_WH[:, h], int(last)) for h, last in enumerate(self.last))

    def _read_one(self, ends_W: npt.NDArray[np.int64], tips_W: npt.NDArray[np.int32], last: int) -> ListColumn:
        new = np.ones(len(ends_W), np.bool_)
        new[1:] = (ends_W[1:] != ends_W[:-1]) | (tips_W[1:] != tips_W[:-1])
        lengths = np.where(tips_W[new] == NONE, 0, np.minimum(ends_W[new], last))
        offsets = offsets_of(lengths)
        values = np.empty(offsets[-1], np.int64)
        _read(self.entries, tips_W[new], lengths, offsets, values)
        return ListColumn(rows=Jagged(values, offsets), index=(np.cumsum(new) - 1).astype(np.int32))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """State for a cut."""
        return {"entries": self.entries, "free": self.free[: self.num_free[0]]}

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """State from a cut."""
        self.entries = arrays["entries"].copy()
        self.num_free[0] = len(arrays["free"])
        self.free = np.concatenate([arrays["free"], np.empty(len(self.entries) - len(arrays["free"]), np.int32)])
