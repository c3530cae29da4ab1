"""Ids never leave their table, every row can be reached, and the mapping is the documented one."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.ikjt import Hash, transform_ids
from trainer.config import IdMapping, TableConfig
from trainer.ids import first_rows, mapping_of, table_seed

IDS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)
MAPPINGS: tuple[IdMapping, ...] = get_args(IdMapping)


def rows_of(ids: list[int] | range, mapping: IdMapping, rows: int, table: str = "t") -> list[int]:
    step = mapping_of(table, TableConfig(rows=rows, mapping=mapping))
    return [int(row) for row in transform_ids(np.asarray(ids, np.int64), step)]


def test_the_hash_of_a_table_never_changes() -> None:
    """Golden values: another result would orphan every trained row."""
    assert table_seed("item") == 15634484697162812036
    assert mapping_of("item", TableConfig(rows=9)) == Hash(9, 15634484697162812036)
    assert rows_of([0, 1, -1, 2**62], "hash", 1_000_003, "item") == [252145, 138706, 434715, 475638]


@pytest.mark.parametrize("rows", [2, 4, 7])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_every_row_of_a_small_table_is_reached_and_none_outside_it(mapping: IdMapping, rows: int) -> None:
    assert set(rows_of(range(-5_000, 5_000), mapping, rows)) == {*range(rows)}


@given(IDS, st.sampled_from(MAPPINGS), st.integers(2, 2**31 - 1))
def test_no_id_reaches_another_tables_row(ids: list[int], mapping: IdMapping, rows: int) -> None:
    ends = [-1, 0, rows - 2, rows - 1, rows, rows + 1, -(2**63), 2**63 - 1]
    assert all(0 <= row < rows for row in rows_of(ids + ends, mapping, rows))


def test_rows_are_hit_evenly() -> None:
    hits = np.bincount(rows_of(range(100_000), "hash", 100), minlength=100)
    assert hits.min() > 800
    assert hits.max() < 1200


def test_tables_of_other_names_hash_the_same_ids_apart() -> None:
    ids = range(10_000)
    same = np.asarray(rows_of(ids, "hash", 1000, "a")) == np.asarray(rows_of(ids, "hash", 1000, "b"))
    assert same.mean() < 0.01


def test_direct_ids_out_of_range_fall_on_the_declared_row() -> None:
    assert rows_of([0, 6, 7, 8, 9, -1, -(2**63), 2**63 - 1], "direct", 8) == [0, 6, 7, 7, 7, 7, 7, 7]


def test_remainders_are_never_negative() -> None:
    assert rows_of([-1, 0, 7, 8, 9, -(2**63)], "modulo", 8) == [7, 0, 7, 0, 1, 0]


def test_narrow_ids_are_mapped_like_wide_ones() -> None:
    wide = np.asarray([-3, 5], np.int64)
    for mapping in MAPPINGS:
        step = mapping_of("t", TableConfig(rows=97, mapping=mapping))
        assert transform_ids(wide.astype(np.int32), step).tolist() == transform_ids(wide, step).tolist()


def test_tables_lie_one_after_the_other() -> None:
    assert first_rows({"a": TableConfig(rows=3), "b": TableConfig(rows=5), "c": TableConfig(rows=2)}) == {
        "a": 0,
        "b": 3,
        "c": 8,
    }
