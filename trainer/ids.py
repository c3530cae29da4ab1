"""Feature ids to table rows.

Owns the two mappings and the layout of all tables one after the other. Runs once per distinct row, on
numpy; never sees a tensor and never creates or evicts rows.

Shape suffixes: V ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trainer.config import TableConfig

I64 = npt.NDArray[np.int64]

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)


def table_seed(table: str) -> int:
    """64 bits from the table's name: equal ids fall on unrelated rows of different tables."""
    return int.from_bytes(hashlib.blake2b(table.encode(), digest_size=8).digest(), "little")


def hash_rows(ids_V: npt.NDArray[Any], seed: int, rows: int) -> I64:
    """splitmix64 of (id + seed), modulo `rows`, all in unsigned 64-bit arithmetic.

    The mapping is part of every checkpoint: a change here orphans all trained rows. As plain Python:

        x = (id + seed + 0x9E3779B97F4A7C15) % 2**64
        x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ x >> 27) * 0x94D049BB133111EB) % 2**64
        row = (x ^ x >> 31) % rows
    """
    x = ids_V.astype(np.int64).view(np.uint64)
    with np.errstate(over="ignore"):
        x = x + (np.uint64(seed) + _GAMMA)
        x = (x ^ (x >> np.uint64(30))) * _MIX_1
        x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return ((x ^ (x >> np.uint64(31))) % np.uint64(rows)).view(np.int64)


def direct_rows(ids_V: npt.NDArray[Any], rows: int) -> tuple[I64, npt.NDArray[np.bool_]]:
    """The id itself where it lies in [0, rows - 1), else the last row; and which ids were out of range."""
    ids = ids_V.astype(np.int64)
    outside = (ids < 0) | (ids >= rows - 1)
    return np.where(outside, rows - 1, ids), outside


def map_ids(ids_V: npt.NDArray[Any], table: str, config: TableConfig) -> tuple[I64, npt.NDArray[np.bool_] | None]:
    """Rows of the table, and which ids were out of range (None where that cannot happen)."""
    if config.mapping == "direct":
        return direct_rows(ids_V, config.rows)
    return hash_rows(ids_V, table_seed(table), config.rows), None


def first_rows(tables: Mapping[str, TableConfig]) -> dict[str, int]:
    """Table name to its first row in the arena that holds all tables one after the other."""
    starts = np.cumsum([0] + [config.rows for config in tables.values()])
    return {table: int(start) for table, start in zip(tables, starts, strict=False)}
