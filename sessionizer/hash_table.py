"""Open addressing over 64-bit keys, for use inside compiled kernels.

A table is a structured array whose length is a power of two and whose records have a `key` and a `used` field.
Owns probing and growing. Entries are never deleted one by one: `rebuild` copies the ones worth keeping.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from sessionizer.growing import zeros

Table = npt.NDArray[np.void]

MIN_SIZE = 1024


@nb.njit(cache=True, nogil=True, inline="always")
def mix64(x: Any) -> Any:
    """Finalizer of SplitMix64: every bit of the key reaches every bit of the result."""
    h = np.uint64(x)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@nb.njit(cache=True, nogil=True)
def probe(table: Any, key: Any) -> Any:
    """Place of `key`, or the free place where it belongs. The table must not be full."""
    mask = np.uint64(len(table) - 1)
    at = mix64(key) & mask
    while table[at].used and table[at].key != key:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@nb.njit(cache=True, nogil=True)
def _copy_into(target: Any, source: Any, keep: Any) -> None:
    for i in range(len(source)):
        if keep[i]:
            target[probe(target, source[i].key)] = source[i]


def rebuild(table: Table, keep: npt.NDArray[np.bool_], room_for: int) -> Table:
    """A table with the kept entries, at most half full once `room_for` more are in it."""
    size = MIN_SIZE
    while size < 2 * (int(np.count_nonzero(keep)) + room_for):
        size *= 2
    fresh: Table = zeros((size,), table.dtype)
    _copy_into(fresh, table, keep)
    return fresh
