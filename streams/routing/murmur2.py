"""Where Kafka's own clients put a key: murmur2, one key at a time or a column of them.

Owns the hash and the partition that follows from it. Keys are bytes; a partition is its hash without the sign, modulo
their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from streams.events.event import I64

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF
_LONGEST: Final = 64
"""Keys up to so many bytes are hashed together: a longer one would widen the matrix for all."""


def murmur2(key: bytes) -> int:
    """As Kafka's own clients hash keys: 32 bits, unsigned."""
    length = len(key)
    h = (_SEED ^ length) & _MASK
    for at in range(0, length - length % 4, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if rest := key[length - length % 4 :]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def partition_of(key: bytes, num_partitions: int) -> int:
    """Where a key belongs."""
    return (murmur2(key) & 0x7FFFFFFF) % num_partitions


def partitions_of(keys: Sequence[bytes], num_partitions: int) -> I64:
    """[N], where each of the keys belongs."""
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    short = np.flatnonzero(lengths <= _LONGEST)
    found = np.empty(len(keys), np.int64)
    if len(short) < len(keys):
        for i in np.flatnonzero(lengths > _LONGEST).tolist():
            found[i] = partition_of(keys[i], num_partitions)
        keys = [keys[i] for i in short.tolist()]
    if keys:
        found[short] = (_hashes(keys, lengths[short]) & 0x7FFFFFFF) % num_partitions
    return found


def _hashes(keys: Sequence[bytes], lengths: I64) -> npt.NDArray[np.uint32]:
    """[N], `murmur2` of each; there is one at least."""
    # One word more than the longest key fills: there the rest of it ends, in zeros.
    width = 4 * (int(lengths.max()) // 4 + 1)
    words_NW = np.frombuffer(b"".join([key.ljust(width, b"\0") for key in keys]), "<u4").reshape(len(keys), -1)
    m, whole = np.uint32(_M), lengths // 4
    h = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    for column in range(words_NW.shape[1]):
        word = words_NW[:, column]
        k = word * m
        k = (k ^ (k >> np.uint32(24))) * m
        h = np.where(column < whole, (h * m) ^ k, np.where((column == whole) & (lengths % 4 > 0), (h ^ word) * m, h))
    h = (h ^ (h >> np.uint32(13))) * m
    return h ^ (h >> np.uint32(15))
