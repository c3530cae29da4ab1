"""Groups joined and cut where others have broken: nothing in a part, nothing in a row, ids and dtypes that mix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from streams.ikjt.dedup import compose, deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import deduplicate_windows
from streams.ikjt.regroup import concat_groups, slice_group
from streams.ikjt.windows import Group, PartialIkjt
from tests.streams.ikjt.test_partial import same_group

Build = Callable[[dict[str, Jagged]], Group]
AGE = np.asarray([[1.0], [1.0], [2.0], [2.0]], np.float32)


def exact(features: dict[str, Jagged], dense: npt.NDArray[np.float32] | None = None) -> Group:
    return deduplicate("g", features, dense, () if dense is None else ("age",))


def windows(features: dict[str, Jagged], dense: npt.NDArray[np.float32] | None = None) -> Group:
    return deduplicate_windows("g", features, session_of(features), dense, () if dense is None else ("age",))


def session_of(features: dict[str, Jagged]) -> npt.NDArray[np.int64]:
    return np.zeros(next(iter(features.values())).num_rows, np.int64)


FORMS = pytest.mark.parametrize("build", [exact, windows])


def lists(group: Group) -> dict[str, list[list[int]]]:
    return {key: rows.to_lists() for key, rows in group.expand().items()}


@FORMS
def test_a_part_without_samples_adds_nothing_wherever_it_stands(build: Build) -> None:
    full = build({"a": Jagged.from_lists([[1, 2], [2, 3], [1, 2]])})
    none = slice_group(full, 3, 3, np.zeros(3))
    none.validate()
    assert (none.keys, none.num_samples, none.num_rows, type(none)) == (("a",), 0, 0, type(full))
    for parts in ([none, full], [full, none], [none, full, none]):
        assert same_group(concat_groups(parts, np.zeros(3)), full)
    assert concat_groups([none, none], np.zeros(0)).num_samples == 0


@FORMS
def test_a_tail_whose_samples_have_no_values_is_not_dropped(build: Build) -> None:
    group = build({"a": Jagged.from_lists([[1, 2], [2, 3], [], []])})
    tail = slice_group(group, 2, 4, np.zeros(4))
    tail.validate()
    assert lists(tail) == {"a": [[], []]}
    assert (tail.num_rows, tail.num_values, tail.dedup_factor) == (1, 0, 1.0)
    assert same_group(concat_groups([slice_group(group, 0, 2, np.zeros(4)), tail], np.zeros(4)), group)


@FORMS
def test_a_batch_of_new_users_has_empty_histories_and_keeps_what_else_it_knows(build: Callable[..., Group]) -> None:
    rows = Jagged.from_lists([[], [], [], []])
    group = build({"a": rows, "b": rows}, AGE)
    group.validate()
    assert lists(group) == {"a": [[], [], [], []], "b": [[], [], [], []]}
    assert (group.num_rows, group.num_values, group.inverse.tolist()) == (2, 0, [0, 0, 1, 1])
    dense = group.expand_dense()
    assert dense is not None
    assert dense.tolist() == AGE.tolist()
    halves = [slice_group(group, start, start + 2, np.zeros(4)) for start in (0, 2)]
    assert same_group(concat_groups(halves, np.zeros(4)), group)
    tuples, inverse = compose([group, group])
    assert (tuples.tolist(), inverse.tolist()) == ([[0, 0], [1, 1]], [0, 0, 1, 1])


def test_an_empty_row_that_every_sample_uses_expands_to_empty_rows() -> None:
    group = Ikjt("g", {"a": Jagged.from_lists([[]])}, np.zeros(3, np.int32))
    group.validate()
    assert group.expand()["a"].lengths.tolist() == [0, 0, 0]
    assert group.expand()["a"].values.tolist() == []


@FORMS
@pytest.mark.parametrize("offsets", [[0, -1, 2], [0, 2, 1], [0, 3], [1, 2], [0, 2**31 - 1]])
def test_offsets_that_no_kernel_may_see_are_refused_by_the_name_of_their_feature(
    build: Build, offsets: list[int]
) -> None:
    broken = Jagged(np.asarray([5, 6]), np.asarray(offsets, np.int64))
    with pytest.raises(ValueError, match="group g, feature a: offsets"):
        build({"a": broken})


@FORMS
def test_features_with_the_same_ids_keep_their_own_lengths(build: Build) -> None:
    clicked, viewed = [1, 2, 3], list(range(40))
    features = {"clicked": Jagged.from_lists([clicked] * 4), "viewed": Jagged.from_lists([viewed] * 4)}
    group = build(features)
    joined = concat_groups([slice_group(group, 1, 3, np.zeros(4)), group], np.zeros(6))
    for each, samples in ((group, 4), (joined, 6)):
        assert lists(each) == {"clicked": [clicked] * samples, "viewed": [viewed] * samples}
        assert each.num_values == 43


@FORMS
def test_a_weighted_feature_beside_one_that_is_not_stays_so(build: Build) -> None:
    rows = Jagged.from_lists([[1, 2], [2, 3], [2, 3]])
    weighted = Jagged(rows.values, rows.offsets, np.asarray([1, 2, 2, 3, 2, 3], np.float32))
    group = build({"weighted": weighted, "plain": rows})
    again = concat_groups([slice_group(group, 0, 1, np.zeros(3)), slice_group(group, 1, 3, np.zeros(3))], np.zeros(3))
    assert same_group(again, group)
    expanded = again.expand()
    assert expanded["plain"].weights is None
    assert expanded["weighted"].weights is not None
    assert expanded["weighted"].weights.tolist() == [1, 2, 2, 3, 2, 3]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@FORMS
def test_the_dtype_of_ids_is_the_features_own_and_never_follows_the_ids(build: Build, dtype: type[Any]) -> None:
    of_any_size: list[list[list[int]]] = [[[1], [2]], [[2**31 - 1], [-(2**31)]], [[], []]]
    for ids in of_any_size:
        rows = Jagged.from_lists(ids)
        group = build({"a": Jagged(rows.values.astype(dtype), rows.offsets)})
        for each in (group, slice_group(group, 1, 2, np.zeros(2)), concat_groups([group, group], np.zeros(4))):
            assert each.expand()["a"].values.dtype == dtype
            assert each.inverse.dtype == np.int32


@FORMS
def test_parts_with_ids_of_different_dtypes_are_not_joined(build: Build) -> None:
    rows = Jagged.from_lists([[1, 2], [2, 3]])
    narrow, wide = (build({"a": Jagged(rows.values.astype(dtype), rows.offsets)}) for dtype in (np.int32, np.int64))
    with pytest.raises(ValueError, match=r"feature g\.a: ids of int32 and int64 are not joined; give all parts one"):
        concat_groups([narrow, wide], np.zeros(4))


def test_the_forms_of_parts_may_differ_and_the_whole_is_partial() -> None:
    features = {"a": Jagged.from_lists([[1, 2], [2, 3]])}
    mixed = concat_groups([exact(features), windows(features)], np.zeros(4))
    assert isinstance(mixed, PartialIkjt)
    assert same_group(mixed, windows({"a": Jagged.from_lists([[1, 2], [2, 3], [1, 2], [2, 3]])}))


def test_an_inverse_of_another_order_is_refused_before_it_can_be_silently_wrong() -> None:
    rows = Jagged.from_lists([[1], [2], [3]])
    for inverse, message in (
        ([0, 2, 1], "sample 1 uses row 2 before the rows below it were used"),
        ([0, 1, 5], "sample 2 uses row 5; there are 3 rows, counted from 0"),
        ([0, 1, -1], "sample 2 uses row -1; there are 3 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            Ikjt("g", {"a": rows}, np.asarray(inverse, np.int32)).validate()


@FORMS
def test_samples_and_sessions_that_are_not_there_are_refused(build: Build) -> None:
    group = build({"a": Jagged.from_lists([[1, 2], [2, 3]])})
    with pytest.raises(
        ValueError, match=r"group g: session_id must have one id for each of 2 samples, not shape \[1\]"
    ):
        slice_group(group, 0, 1, np.zeros(1))
    with pytest.raises(
        ValueError, match=r"group g: session_id must have one id for each of 4 samples, not shape \[2\]"
    ):
        concat_groups([group, group], np.zeros(2))
    for start, stop in ((0, 3), (-1, 2), (2, 1)):
        with pytest.raises(ValueError, match=f"group g: samples {start} to {stop} are not all there; it has 2"):
            slice_group(group, start, stop, np.zeros(2))


@pytest.mark.parametrize("inverse", [[0, 2], [0, -1], [0, 0]])
def test_an_inverse_of_rows_that_are_not_there_is_never_followed(inverse: list[int]) -> None:
    wrong = Ikjt("g", {"a": Jagged.from_lists([[1], [2]])}, np.asarray(inverse, np.int32))
    right = Ikjt("g", {"a": Jagged.from_lists([[1], [2]])}, np.asarray([0, 1], np.int32))
    with pytest.raises(ValueError, match="group g: sample"):
        concat_groups([right, wrong], np.zeros(4))
    with pytest.raises(ValueError, match="group g: sample"):
        slice_group(wrong, 0, 1, np.zeros(2))
