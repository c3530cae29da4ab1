"""Deduplication of a group: exact, stable and of any shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.ikjt.dedup import compose, deduplicate, deduplicate_reference, number_rows
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged, offsets_of
from tests.streams.ikjt.strategies import dense_columns, feature_groups


def same_rows(left: Jagged, right: Jagged) -> bool:
    """Equal in every bit, dtypes included."""
    if (left.weights is None) != (right.weights is None):
        return False
    weights_agree = left.weights is None or right.weights is None or left.weights.tobytes() == right.weights.tobytes()
    return (
        left.values.dtype == right.values.dtype
        and left.values.tobytes() == right.values.tobytes()
        and left.offsets.tolist() == right.offsets.tolist()
        and weights_agree
    )


def same_ikjt(left: Ikjt, right: Ikjt) -> bool:
    """Equal in every bit, keys and their order included."""
    return (
        left.group == right.group
        and left.keys == right.keys
        and left.inverse.dtype == right.inverse.dtype
        and left.inverse.tolist() == right.inverse.tolist()
        and all(same_rows(left.features[key], right.features[key]) for key in left.keys)
        and left.dense_names == right.dense_names
        and (None if left.dense is None else left.dense.tobytes())
        == (None if right.dense is None else right.dense.tobytes())
    )


def test_the_example_of_the_paper() -> None:
    ikjt = deduplicate(
        "user",
        {
            "u": Jagged.from_lists([[7, 8], [7, 8], [7, 8], [7, 8, 9]]),
            "t": Jagged.from_lists([[1, 1], [1, 1], [1, 1], [1, 1, 2]]),
        },
    )
    assert ikjt.features["u"].values.tolist() == [7, 8, 7, 8, 9]
    assert ikjt.features["u"].offsets.tolist() == [0, 2, 5]
    assert ikjt.features["t"].values.tolist() == [1, 1, 1, 1, 2]
    assert ikjt.inverse.tolist() == [0, 0, 0, 1]
    assert repr(ikjt) == "Ikjt(user: u, t; 4 samples, 2 rows, 10 values, factor 1.80)"


@settings(max_examples=150, deadline=None)
@given(feature_groups())
def test_any_group_equals_the_plain_python_reference(features: dict[str, Jagged]) -> None:
    assert same_ikjt(deduplicate("g", features), deduplicate_reference("g", features))


@settings(max_examples=100, deadline=None)
@given(feature_groups(), st.data())
def test_dense_columns_of_the_group_are_part_of_the_row_bit_by_bit(
    features: dict[str, Jagged], data: st.DataObject
) -> None:
    dense = data.draw(dense_columns(next(iter(features.values())).num_rows))
    names = () if dense is None else tuple(f"d{k}" for k in range(dense.shape[1]))
    ikjt = deduplicate("g", features, dense, names)
    ikjt.validate()
    assert same_ikjt(ikjt, deduplicate_reference("g", features, dense, names))
    expanded = ikjt.expand_dense()
    assert (None if expanded is None else expanded.tobytes()) == (None if dense is None else dense.tobytes())


@settings(max_examples=60, deadline=None)
@given(feature_groups())
def test_expanding_gives_the_samples_back_and_all_invariants_hold(features: dict[str, Jagged]) -> None:
    ikjt = deduplicate("g", features)
    ikjt.validate()
    expanded = ikjt.expand()
    assert all(same_rows(expanded[key], rows) for key, rows in features.items())
    assert ikjt.num_values_expanded == sum(len(rows.values) for rows in features.values())


@settings(max_examples=60, deadline=None)
@given(feature_groups())
def test_rows_whose_hashes_all_collide_are_never_merged(features: dict[str, Jagged]) -> None:
    honest = number_rows(features)
    for mask in (np.uint64(0), np.uint64(1)):
        first, inverse = number_rows(features, mask)
        assert first.tolist() == honest[0].tolist()
        assert inverse.tolist() == honest[1].tolist()


def test_repeats_far_apart_are_found_and_numbered_by_first_appearance() -> None:
    ikjt = deduplicate("g", {"a": Jagged.from_lists([[5], [1, 2], [5], [], [1, 2], [], [9]])})
    assert ikjt.inverse.tolist() == [0, 1, 0, 2, 1, 2, 3]
    assert ikjt.features["a"].to_lists() == [[5], [1, 2], [], [9]]


def test_rows_that_differ_in_one_feature_only_stay_apart() -> None:
    ikjt = deduplicate("g", {"a": Jagged.from_lists([[1], [1], [1]]), "b": Jagged.from_lists([[2], [3], [2]])})
    assert ikjt.inverse.tolist() == [0, 1, 0]


def test_rows_that_differ_in_weights_only_stay_apart() -> None:
    offsets = np.asarray([0, 1, 2, 3], dtype=np.int64)
    weights = np.asarray([1.0, 0.5, 1.0], dtype=np.float32)
    ikjt = deduplicate("g", {"a": Jagged(np.asarray([4, 4, 4]), offsets, weights)})
    assert ikjt.inverse.tolist() == [0, 1, 0]
    assert ikjt.features["a"].weights is not None
    assert ikjt.features["a"].weights.tolist() == [1.0, 0.5]


def test_two_rows_with_the_same_values_cut_differently_stay_apart() -> None:
    ikjt = deduplicate("g", {"a": Jagged.from_lists([[1], [2, 3]]), "b": Jagged.from_lists([[1], [2, 3]])})
    assert ikjt.num_rows == 2
    split = deduplicate("g", {"a": Jagged.from_lists([[1, 2], [1]]), "b": Jagged.from_lists([[3], [2, 3]])})
    assert split.num_rows == 2


@pytest.mark.parametrize("rows", [[], [[]], [[], [], []], [[3]], [[2**62, -(2**62)]]])
def test_empty_batches_empty_rows_and_single_rows_work(rows: list[list[int]]) -> None:
    ikjt = deduplicate("g", {"a": Jagged.from_lists(rows)})
    ikjt.validate()
    assert ikjt.num_rows == min(len(rows), 1)
    assert ikjt.expand()["a"].to_lists() == rows


def test_rows_of_a_hundred_thousand_values_that_differ_in_the_last_one_stay_apart() -> None:
    long = np.arange(100_000, dtype=np.int64)
    other = long.copy()
    other[-1] += 1
    rows = [long, other, long, other]
    features = {"a": Jagged(np.concatenate(rows), offsets_of(np.asarray([len(row) for row in rows])))}
    assert deduplicate("g", features).inverse.tolist() == [0, 1, 0, 1]


def test_a_batch_without_repeats_shares_the_arrays_of_the_input() -> None:
    rows = Jagged.from_lists([[1], [2], [3]])
    ikjt = deduplicate("g", {"a": rows})
    assert ikjt.features["a"] is rows
    assert ikjt.dedup_factor == 1.0


def test_features_with_different_numbers_of_rows_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"group g: every feature needs one row a sample.*'b': 1"):
        deduplicate("g", {"a": Jagged.from_lists([[1], [2]]), "b": Jagged.from_lists([[1]])})


def test_a_group_without_features_is_refused() -> None:
    with pytest.raises(ValueError, match="group g: has no features"):
        deduplicate("g", {})


def test_offsets_that_decrease_are_refused_before_any_loop_runs_over_them() -> None:
    broken = Jagged(np.asarray([1, 2]), np.asarray([0, 2, 1], dtype=np.int64))
    with pytest.raises(ValueError, match="group g, feature a: offsets decrease at row 1"):
        deduplicate("g", {"a": broken})


def test_dense_columns_that_do_not_fit_are_refused_in_words() -> None:
    rows = {"a": Jagged.from_lists([[1], [2]])}
    one = np.zeros((2, 1), dtype=np.float32)
    with pytest.raises(ValueError, match=r"dense must be \[2, 2\] float32, not \[2, 1\] float32"):
        deduplicate("g", rows, one, ["x", "y"])
    with pytest.raises(ValueError, match=r"dense must be \[2, 1\] float32, not \[2, 1\] float64"):
        deduplicate("g", rows, one.astype(np.float64), ["x"])
    with pytest.raises(ValueError, match="dense columns need a name each, and each its own"):
        deduplicate("g", rows, np.zeros((2, 2), dtype=np.float32), ["x", "x"])
    with pytest.raises(ValueError, match="dense columns x are named but not there"):
        deduplicate("g", rows, None, ["x"])
    with pytest.raises(ValueError, match="name is empty or holds a zero character"):
        deduplicate("g", rows, one, [""])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_composed_inverses_are_the_distinct_tuples_in_order_of_first_appearance(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 12))
    groups = [
        deduplicate(f"g{g}", data.draw(feature_groups(st.just(size)))) for g in range(data.draw(st.integers(1, 3)))
    ]
    tuples, inverse = compose(groups)
    kinds: dict[tuple[int, ...], int] = {}
    used = list(zip(*(group.inverse.tolist() for group in groups), strict=True))
    assert inverse.tolist() == [kinds.setdefault(each, len(kinds)) for each in used]
    assert [tuple(each) for each in tuples.tolist()] == list(kinds)
    assert tuples.shape == (len(kinds), len(groups))


def test_only_groups_of_one_batch_are_composed() -> None:
    one, two = (deduplicate(name, {name: Jagged.from_lists(rows)}) for name, rows in (("a", [[1]]), ("b", [[1], [2]])))
    with pytest.raises(ValueError, match=r"groups of different batches: samples are {'a': 1, 'b': 2}"):
        compose([one, two])
    with pytest.raises(ValueError, match="no feature groups to compose"):
        compose([])
