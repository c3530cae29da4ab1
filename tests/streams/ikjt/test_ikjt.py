"""The type of a feature group: sizes, and every invariant by its message."""

from __future__ import annotations

import numpy as np
import pytest

from streams.ikjt.dedup import check_rows_distinct
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged

TWO = Jagged.from_lists([[1, 2, 3], []])


def ikjt(inverse: list[int], **features: Jagged) -> Ikjt:
    return Ikjt("g", features or {"a": TWO}, np.asarray(inverse, dtype=np.int32))


def test_sizes_count_what_is_stored_and_what_a_kjt_would_store() -> None:
    group = ikjt([0, 0, 1, 0], a=TWO, b=Jagged.from_lists([[7], [8]]))
    group.validate()
    assert (group.num_samples, group.num_rows, group.keys) == (4, 2, ("a", "b"))
    assert (group.num_values, group.num_values_expanded) == (5, 13)
    assert group.dedup_factor == 13 / 5


def test_a_group_without_values_has_factor_one() -> None:
    assert ikjt([0, 0], a=Jagged.from_lists([[]])).dedup_factor == 1.0


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (Ikjt("g", {}, np.zeros(0, np.int32)), "group g: has no features"),
        (ikjt([0, 1], a=TWO, b=Jagged.from_lists([[1]])), "group g: b has 1 rows, a 2"),
        (ikjt([0, 9]), "group g: sample 1 uses row 9; there are 2 rows, counted from 0"),
        (ikjt([1, 0]), "group g: sample 0 uses row 1 before"),
        (ikjt([0, 1, -1]), "group g: sample 2 uses row -1; there are 2 rows, counted from 0"),
        (ikjt([0, 0]), "group g: samples use 1 rows, but there are 2"),
        (ikjt([0, 1, 2]), "group g: sample 2 uses row 2; there are 2 rows, counted from 0"),
        (ikjt([]), "group g: samples use 0 rows, but there are 2"),
        (Ikjt("g", {"a": TWO}, np.asarray([0, 1])), "group g: inverse must be one row of int32, not int64"),
        (ikjt([0], a=Jagged(TWO.values, np.asarray([0, 1]))), "group g, feature a: offsets end at 1"),
    ],
)
def test_broken_groups_are_refused_by_name(group: Ikjt, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        group.validate()


def test_rows_that_are_equal_are_found_on_demand_and_named() -> None:
    twice = Jagged.from_lists([[1], [2], [1]])
    group = ikjt([0, 1, 2], a=twice)
    group.validate()
    with pytest.raises(ValueError, match="group g: rows 0 and 2 are equal in a; equal rows are stored once"):
        check_rows_distinct(group)
    check_rows_distinct(ikjt([0, 1, 2], a=twice, b=Jagged.from_lists([[1], [1], [2]])))
