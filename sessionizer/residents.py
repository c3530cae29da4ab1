"""Residents: users that come into a core with their profile, and users that leave it.

Owns the kernels that take entries out of chains, put them in, and move what stays together. Never decides who leaves;
`windower` does.

Shape suffixes: U users, H histories, V entries, S slots.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from sessionizer.arrivals import MIN_MS
from sessionizer.hash_table import probe
from sessionizer.history import ENTRY, NONE
from sessionizer.sessions import slot_of
from state.profiles import Profiles
from streams.ikjt.jagged import offsets_of

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


@nb.njit(cache=True, nogil=True)
def find(index: Any, users: Any, slots: Any) -> None:
    """Slot of each user, NONE for one that has none."""
    for i in range(len(users)):
        at = probe(index, users[i])
        slots[i] = index[at].slot if index[at].used else NONE


def gather(users_S: I64, chains_SH: npt.NDArray[np.void], entries: npt.NDArray[np.void], last_H: I64) -> Profiles:
    """The profiles of users with these chains: what a sample to come may see."""
    first_SH = np.maximum(chains_SH["first"], chains_SH["visible"] - last_H)
    lengths_SH = chains_SH["total"] - first_SH
    ends_SH = np.cumsum(lengths_SH).reshape(lengths_SH.shape)
    places = np.empty(int(lengths_SH.sum()), np.int32)
    _walk(chains_SH, entries, lengths_SH, ends_SH, places)
    kept = entries[places]
    return Profiles(
        user=users_S,
        total_UH=chains_SH["total"],
        visible_UH=chains_SH["visible"],
        lengths_UH=lengths_SH,
        item=kept["item"],
        time_ms=kept["time"],
        offset=kept["offset"],
    )


@nb.njit(cache=True, nogil=True)
def _walk(chains_SH: Any, entries: Any, lengths_SH: Any, ends_SH: Any, places: Any) -> None:
    for s in range(chains_SH.shape[0]):
        for h in range(chains_SH.shape[1]):
            at = chains_SH[s, h].newest
            for place in range(ends_SH[s, h] - 1, ends_SH[s, h] - lengths_SH[s, h] - 1, -1):
                places[place] = at
                at = entries[at].older


def settle(profiles: Profiles, state: tuple[Any, ...], lore: tuple[Any, ...]) -> None:
    """Give each user a slot and the entries of the profile; there must be room, and none may have a slot already."""
    starts_UH = offsets_of(profiles.lengths_UH.ravel())[:-1].reshape(profiles.lengths_UH.shape)
    columns = (profiles.item, profiles.time_ms, profiles.offset)
    counts = (profiles.total_UH, profiles.visible_UH, profiles.lengths_UH, starts_UH)
    _settle(profiles.user, counts, columns, state, lore)


@nb.njit(cache=True, nogil=True)
def _settle(users: Any, counts: Any, columns: Any, state: Any, lore: Any) -> None:
    total_UH, visible_UH, lengths_UH, starts_UH = counts
    item, time_ms, offset = columns
    entries, free, num_free, chains, _last = lore
    for u in range(len(users)):
        slot = slot_of(state, chains, users[u])
        for h in range(total_UH.shape[1]):
            chain = chains[slot, h]
            chain.total, chain.visible = total_UH[u, h], visible_UH[u, h]
            chain.first = total_UH[u, h] - lengths_UH[u, h]
            for i in range(lengths_UH[u, h]):
                v = starts_UH[u, h] + i
                num_free[0] -= 1
                at = free[num_free[0]]
                entries[at].item, entries[at].time, entries[at].offset = item[v], time_ms[v], offset[v]
                entries[at].older, entries[at].newer = chain.newest, NONE
                if chain.newest != NONE:
                    entries[chain.newest].newer = at
                else:
                    chain.oldest = at
                if chain.first + i == chain.visible - 1:
                    chain.tip = at
                chain.newest, chain.newest_ms = at, time_ms[v]


def together(chains_SH: npt.NDArray[np.void], entries: npt.NDArray[np.void]) -> tuple[npt.NDArray[np.void], I32]:
    """The entries of these chains side by side, and where each old place has gone; the chains are told.

    NONE for a place that none of the chains holds.
    """
    num = int((chains_SH["total"] - chains_SH["first"]).sum())
    moved = np.full(len(entries), NONE, np.int32)
    side_by_side = np.zeros(num, ENTRY)
    _move(chains_SH, entries, side_by_side, moved)
    return side_by_side, moved


@nb.njit(cache=True, nogil=True)
def _move(chains_SH: Any, entries: Any, target: Any, moved: Any) -> None:
    num = 0
    for s in range(chains_SH.shape[0]):
        for h in range(chains_SH.shape[1]):
            chain = chains_SH[s, h]
            at, newer = chain.newest, NONE
            while at != NONE:
                moved[at] = num
                target[num] = entries[at]
                target[num].newer = newer
                if newer != NONE:
                    target[newer].older = num
                newer = num
                num += 1
                at = entries[at].older
            if chain.newest != NONE:
                chain.newest, chain.oldest = moved[chain.newest], moved[chain.oldest]
            if chain.tip != NONE:
                chain.tip = moved[chain.tip]


def renamed(names: I32, moved: I32) -> I32:
    """Places after a move; NONE stays, and what was never a place becomes it."""
    there = (names >= 0) & (names < len(moved))
    return np.where(there, moved[np.where(there, names, 0)] if len(moved) else NONE, NONE).astype(np.int32)


def recency(users_S: npt.NDArray[np.void], chains_SH: npt.NDArray[np.void]) -> I64:
    """[S], event time at which something of each user was last seen."""
    return np.asarray(np.maximum(users_S["last_ms"], chains_SH["newest_ms"].max(axis=1, initial=MIN_MS)))
