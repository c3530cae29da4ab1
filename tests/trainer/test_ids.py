"""Ids never leave their table, every row can be reached, and the mapping is the documented one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainer.config import TableConfig
from trainer.ids import direct_rows, first_rows, hash_rows, map_ids, table_seed

IDS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


def documented_hash(identity: int, seed: int, rows: int) -> int:
    """The docstring of `hash_rows`, in Python's unbounded integers."""
    x = (identity + seed + 0x9E3779B97F4A7C15) % 2**64
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) % 2**64
    return (x ^ x >> 31) % rows


@given(IDS, st.integers(0, 2**64 - 1), st.integers(2, 2**31 - 1))
def test_the_hash_is_the_documented_one(ids: list[int], seed: int, rows: int) -> None:
    hashed = hash_rows(np.asarray(ids, np.int64), seed, rows)
    assert hashed.tolist() == [documented_hash(i, seed, rows) for i in ids]


def test_the_hash_of_a_table_never_changes() -> None:
    """Golden values: another result would orphan every trained row."""
    assert table_seed("item") == 15634484697162812036
    ids = np.asarray([0, 1, -1, 2**62])
    assert hash_rows(ids, table_seed("item"), 1_000_003).tolist() == [252145, 138706, 434715, 475638]


def test_every_row_of_a_small_table_is_reached_and_none_outside_it() -> None:
    hashed = hash_rows(np.arange(-5_000, 5_000), table_seed("t"), 4)
    assert sorted(set(hashed.tolist())) == [0, 1, 2, 3]


def test_rows_are_hit_evenly() -> None:
    hits = np.bincount(hash_rows(np.arange(100_000), table_seed("t"), 100), minlength=100)
    assert hits.min() > 800
    assert hits.max() < 1200


def test_tables_of_other_names_hash_the_same_ids_apart() -> None:
    ids = np.arange(10_000)
    same = hash_rows(ids, table_seed("a"), 1000) == hash_rows(ids, table_seed("b"), 1000)
    assert same.mean() < 0.01


def test_direct_ids_out_of_range_fall_on_the_declared_row_and_are_counted() -> None:
    rows, outside = direct_rows(np.asarray([0, 6, 7, 8, 9, -1, -(2**63), 2**63 - 1]), 8)
    assert rows.tolist() == [0, 6, 7, 7, 7, 7, 7, 7]
    assert outside.tolist() == [False, False, True, True, True, True, True, True]


@given(IDS, st.integers(2, 100))
def test_direct_ids_never_reach_another_tables_row(ids: list[int], rows: int) -> None:
    mapped, _ = direct_rows(np.asarray(ids, np.int64), rows)
    assert all(0 <= row < rows for row in mapped.tolist())


def test_a_hashed_table_has_no_id_out_of_range() -> None:
    assert map_ids(np.asarray([2**62]), "t", TableConfig(rows=3))[1] is None


def test_narrow_ids_hash_like_wide_ones() -> None:
    wide = np.asarray([-3, 5], np.int64)
    assert hash_rows(wide.astype(np.int32), 1, 97).tolist() == hash_rows(wide, 1, 97).tolist()


def test_tables_lie_one_after_the_other() -> None:
    assert first_rows({"a": TableConfig(rows=3), "b": TableConfig(rows=5), "c": TableConfig(rows=2)}) == {
        "a": 0,
        "b": 3,
        "c": 8,
    }
