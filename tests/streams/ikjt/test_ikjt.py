"""The type of a feature group: sizes, and every invariant by its message."""

from __future__ import annotations

import numpy as np
import pytest

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
        (ikjt([0, 2]), "group g: sample 1 uses row 2 before the rows below it were used"),
        (ikjt([1, 0]), "group g: sample 0 uses row 1 before"),
        (ikjt([0, 1, -1]), "group g: inverse holds -1; rows count from 0"),
        (ikjt([0, 0]), "group g: samples use 1 rows, but there are 2"),
        (ikjt([0, 1, 2]), "group g: samples use 3 rows, but there are 2"),
        (ikjt([]), "group g: samples use 0 rows, but there are 2"),
        (Ikjt("g", {"a": TWO}, np.asarray([0, 1])), "group g: inverse must be one row of int32, not int64"),
        (ikjt([0], a=Jagged(TWO.values, np.asarray([0, 1]))), "group g, feature a: offsets end at 1"),
    ],
)
def test_broken_groups_are_refused_by_name(group: Ikjt, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        group.validate()
