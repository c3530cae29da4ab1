"""The compiled half of a profile's bytes: varints in and out (`profiles` has the layout).

Shape suffixes: U users, H histories, V entries of all of them.
"""

from __future__ import annotations

from typing import Any, Final

import numba as nb
import numpy as np

MOST_VARINT: Final = 10
"""Bytes of a varint of 64 bits at most."""


@nb.njit(cache=True, nogil=True)
def _put(out: Any, at: Any, value: Any) -> Any:
    left = np.uint64(value)
    while left >= np.uint64(128):
        out[at] = np.uint8(left & np.uint64(127)) | np.uint8(128)
        left >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(left)
    return at + 1


@nb.njit(cache=True, nogil=True)
def _zigzag(value: Any) -> Any:
    return np.uint64((value << np.int64(1)) ^ (value >> np.int64(63)))


@nb.njit(cache=True, nogil=True)
def write(head: Any, counts: Any, columns: Any, out: Any, ends_U: Any) -> None:
    """Fill `out` with one profile after the other, and `ends_U` with where each one ends."""
    total_UH, visible_UH, lengths_UH = counts
    item, time_ms, offset = columns
    at = v = 0
    for u in range(total_UH.shape[0]):
        out[at : at + len(head)] = head
        at += len(head)
        for h in range(total_UH.shape[1]):
            at = _put(out, at, total_UH[u, h])
            at = _put(out, at, total_UH[u, h] - visible_UH[u, h])
            at = _put(out, at, lengths_UH[u, h])
            last_ms = last_offset = np.int64(0)
            for _ in range(lengths_UH[u, h]):
                at = _put(out, at, _zigzag(item[v]))
                at = _put(out, at, _zigzag(time_ms[v] - last_ms))
                at = _put(out, at, _zigzag(offset[v] - last_offset))
                last_ms, last_offset = time_ms[v], offset[v]
                v += 1
        ends_U[u] = at


@nb.njit(cache=True, nogil=True)
def _get(data: Any, at: Any, end: Any) -> Any:
    """A varint and the place after it; a place of -1 where it does not end in time."""
    value, shift = np.uint64(0), np.uint64(0)
    while at < end and shift < np.uint64(70):
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return value, at
        shift += np.uint64(7)
    return value, np.int64(-1)


@nb.njit(cache=True, nogil=True)
def _straight(value: Any) -> Any:
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


@nb.njit(cache=True, nogil=True)
def _read_counts(data: Any, at: Any, end: Any, counts_3: Any) -> Any:
    """Entries ever, visible and kept of one history, and the place after them; -1 where they are damaged."""
    for what in range(3):
        value, at = _get(data, at, end)
        if at < 0:
            return at
        counts_3[what] = np.int64(value)
    counts_3[1] = counts_3[0] - counts_3[1]
    total, visible, length = counts_3[0], counts_3[1], counts_3[2]
    if 0 <= visible <= total and 0 <= length <= total and length <= (end - at) // 3:
        return at
    return np.int64(-1)


@nb.njit(cache=True, nogil=True)
def _read_entries(data: Any, at: Any, end: Any, columns_3V: Any) -> Any:
    """Fill the columns with entries; the place after them, -1 where they are damaged."""
    for v in range(columns_3V.shape[1]):
        for column in range(3):
            value, at = _get(data, at, end)
            if at < 0:
                return at
            columns_3V[column, v] = _straight(value)
        if v > 0:
            columns_3V[1, v] += columns_3V[1, v - 1]
            columns_3V[2, v] += columns_3V[2, v - 1]
    return at


@nb.njit(cache=True, nogil=True)
def read(data: Any, ends_U: Any, counts_3UH: Any, columns_3V: Any) -> Any:
    """Fill the counts and columns of all users; the number of entries or, for a damaged user u, -1 - u."""
    at = num = np.int64(0)
    for u in range(len(ends_U)):
        end = ends_U[u]
        if at == end:
            continue  # Nothing is remembered.
        for h in range(counts_3UH.shape[2]):
            if at >= 0:
                at = _read_counts(data, at, end, counts_3UH[:, u, h])
            if at >= 0:
                length = counts_3UH[2, u, h]
                at = _read_entries(data, at, end, columns_3V[:, num : num + length])
                num += length
        if at != end:
            return np.int64(-1 - u)
    return num
