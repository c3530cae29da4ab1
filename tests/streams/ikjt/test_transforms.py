"""Transforms of distinct rows give what transforms of the expanded batch give, in every form and every bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.ikjt import Group, Ikjt, Jagged, PartialIkjt, deduplicate, deduplicate_windows
from streams.ikjt.transforms import (
    Bucketize,
    Clip,
    Direct,
    Filter,
    Hash,
    Missing,
    Modulo,
    Transform,
    Truncate,
)
from streams.ikjt.transforms_groups import transform_group
from streams.ikjt.transforms_rows import transform_ids, transform_rows
from tests.streams.ikjt.strategies import IDS, WIDE_IDS, feature_groups, shifting_groups
from tests.streams.ikjt.test_dedup import same_rows
from tests.streams.ikjt.test_partial import sessions_of

Pair = tuple[int, float]
"""An id and its weight."""
LISTS = st.lists(IDS, max_size=5).map(tuple)
ROWS = st.integers(2, 2**40)


def ascending(numbers: list[float]) -> tuple[float, ...]:
    return tuple(sorted(set(numbers)))


STEPS: dict[type[Transform], st.SearchStrategy[Transform]] = {
    Filter: st.one_of(LISTS.map(lambda ids: Filter(keep=ids)), LISTS.map(lambda ids: Filter(drop=ids))),
    Clip: st.tuples(WIDE_IDS, WIDE_IDS).map(lambda ends: Clip(min(ends), max(ends))),
    Bucketize: st.lists(st.one_of(IDS, st.floats(-1e6, 1e6)), min_size=1, max_size=5).map(
        lambda numbers: Bucketize(ascending(numbers))
    ),
    Truncate: st.integers(1, 4).map(Truncate),
    Missing: WIDE_IDS.map(Missing),
    Modulo: ROWS.map(Modulo),
    Direct: st.one_of(st.integers(2, 6), ROWS).map(Direct),
    Hash: st.builds(Hash, ROWS, st.integers(0, 2**64 - 1)),
}
CHAINS = st.lists(st.one_of(*STEPS.values()), max_size=4)


def mix(identity: int, seed: int) -> int:
    x = (identity + seed + 0x9E3779B97F4A7C15) % 2**64
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) % 2**64
    return x ^ x >> 31


def plainly(row: list[Pair], step: Transform) -> list[Pair]:  # noqa: PLR0911  (a line a transform)
    """The docstring of `transforms`, word by word."""
    match step:
        case Filter(keep=tuple() as ids):
            return [(i, w) for i, w in row if i in ids]
        case Filter(drop=tuple() as ids):
            return [(i, w) for i, w in row if i not in ids]
        case Truncate(last):
            return row[-last:]
        case Missing(declared):
            return row or [(declared, 1.0)]
        case Clip(low, high):
            return [(min(max(i, low), high), w) for i, w in row]
        case Bucketize(boundaries):
            return [(sum(b <= i for b in boundaries), w) for i, w in row]
        case Modulo(rows):
            return [(i % rows, w) for i, w in row]
        case Direct(rows):
            return [(i if 0 <= i < rows - 1 else rows - 1, w) for i, w in row]
        case Hash(rows, seed):
            return [(mix(i, seed) % rows, w) for i, w in row]
    raise AssertionError(step)


def pairs_of(rows: Jagged) -> list[list[Pair]]:
    weights = np.zeros(len(rows.values)) if rows.weights is None else rows.weights
    flat = list(zip(rows.values.tolist(), weights.tolist(), strict=True))
    return [flat[rows.offsets[r] : rows.offsets[r + 1]] for r in range(rows.num_rows)]


def forms_of(features: dict[str, Jagged], session_id: npt.NDArray[np.uint64]) -> list[Group]:
    return [deduplicate("g", features), deduplicate_windows("g", features, session_id)]


def test_every_transform_is_in_the_property() -> None:
    assert set(STEPS) == {*get_args(Transform)}


@given(feature_groups(), CHAINS)
def test_a_chain_does_to_each_row_what_its_description_says(
    features: dict[str, Jagged], chain: list[Transform]
) -> None:
    for rows in features.values():
        expected = pairs_of(rows)
        for step in chain:
            expected = [plainly(row, step) for row in expected]
        if rows.weights is None:
            expected = [[(i, 0.0) for i, _ in row] for row in expected]
        result = transform_rows(rows, chain)
        result.validate()
        assert pairs_of(result) == expected


@given(st.one_of(feature_groups(), shifting_groups()), st.data())
def test_distinct_rows_give_what_the_expanded_batch_gives_in_every_form(
    features: dict[str, Jagged], data: st.DataObject
) -> None:
    session_id = sessions_of(data, next(iter(features.values())).num_rows)
    shared = data.draw(CHAINS)
    chains = {key: data.draw(st.one_of(st.just(shared), CHAINS)) for key in features}
    expanded = {key: transform_rows(rows, chains[key]) for key, rows in features.items()}
    for group in forms_of(features, session_id):
        result = transform_group(group, chains)
        result.validate()
        assert result.inverse is group.inverse
        assert all(same_rows(rows, expanded[key]) for key, rows in result.expand().items())


@given(shifting_groups(), st.data())
def test_a_feature_alone_stays_in_windows_whatever_is_done_to_it(
    features: dict[str, Jagged], data: st.DataObject
) -> None:
    rows = next(iter(features.values()))
    group = deduplicate_windows("g", {"f": rows}, sessions_of(data, rows.num_rows))
    result = transform_group(group, {"f": data.draw(CHAINS)})
    assert isinstance(result, PartialIkjt)


@given(feature_groups())
def test_a_group_without_chains_is_itself(features: dict[str, Jagged]) -> None:
    group = deduplicate("g", features)
    assert transform_group(group, {}) is group
    assert transform_group(group, dict.fromkeys(features, ())) is group


SHIFTING = deduplicate_windows("g", {"a": Jagged.from_lists([[1, 2, 3], [2, 3, 4], []])}, np.zeros(3, np.uint64))


def stored(chain: Sequence[Transform]) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Buffers and windows of 1 2 3, 2 3 4 and an empty row after the chain."""
    result = transform_group(SHIFTING, {"a": chain})
    assert isinstance(result, PartialIkjt)
    return result.buffers["a"].to_lists(), list(zip(result.start.tolist(), result.length.tolist(), strict=True))


def test_an_id_that_windows_share_is_transformed_once() -> None:
    assert stored([Modulo(3)]) == ([[1, 2, 0, 1]], [(0, 3), (1, 3), (0, 0)])


def test_a_filter_moves_windows_with_the_ids_that_are_left() -> None:
    assert stored([Filter(drop=(2,))]) == ([[1, 3, 4]], [(0, 2), (1, 2), (0, 0)])


def test_truncation_drops_the_values_that_no_window_covers_any_more() -> None:
    assert stored([Truncate(1)])[0] == [[3, 4]]


def test_an_empty_window_becomes_one_of_the_declared_id() -> None:
    assert stored([Missing(9)]) == ([[1, 2, 3, 4], [9]], [(0, 3), (1, 3), (4, 1)])


def test_features_whose_windows_come_apart_become_exact_and_those_that_agree_do_not() -> None:
    rows = [[1, 2, 3], [2, 3, 4]]
    group = deduplicate_windows(
        "g", {"a": Jagged.from_lists(rows), "b": Jagged.from_lists(rows)}, np.zeros(2, np.uint64)
    )
    apart = transform_group(group, {"a": [Filter(drop=(2,))]})
    assert isinstance(apart, Ikjt)
    assert apart.features["a"].to_lists() == [[1, 3], [3, 4]]
    assert apart.features["b"].to_lists() == rows
    assert isinstance(transform_group(group, {key: [Filter(drop=(2,))] for key in "ab"}), PartialIkjt)


def test_dense_columns_of_the_group_stay() -> None:
    dense = np.asarray([[1.0], [2.0]], np.float32)
    group = deduplicate("g", {"a": Jagged.from_lists([[1], [2]])}, dense, ("age",))
    result = transform_group(group, {"a": [Clip(0, 0)]})
    assert result.dense is group.dense
    assert result.dense_names == ("age",)
    assert result.num_rows == 2  # equal in ids now, and still two


def test_transforms_of_a_feature_that_the_group_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="group g: transforms of b, but the features are a"):
        transform_group(SHIFTING, {"b": [Missing(0)]})


def test_floats_between_ids_are_compared_exactly() -> None:
    """2**53 + 1 is no float: rounding it would put it on the wrong side."""
    ids = Jagged.from_lists([[2**53, 2**53 + 1, -1, 0, 1]])
    assert transform_rows(ids, [Bucketize((-0.5, 0.5, float(2**53)))]).to_lists() == [[3, 3, 0, 1, 2]]
    assert transform_rows(ids, [Bucketize((2**53 + 1,))]).to_lists() == [[0, 1, 0, 0, 0]]


def test_boundaries_between_the_same_two_integers_all_count() -> None:
    assert transform_rows(Jagged.from_lists([[0, 1, 2]]), [Bucketize((0.2, 0.5, 0.9, 2))]).to_lists() == [[0, 3, 4]]


def test_a_dense_column_becomes_ids_and_floats_nothing_else() -> None:
    ages = np.asarray([17.5, 18.0, np.nan, -1.0, np.inf], np.float32)
    assert transform_ids(ages, Bucketize((0, 18, 65.5))).tolist() == [1, 2, 3, 0, 3]
    with pytest.raises(ValueError, match="Clip needs integers; floats can only be bucketized"):
        transform_ids(ages, Clip(0, 1))


SPREADS = st.sampled_from([8, 2**20, 2**63 - 1])


@given(st.data(), SPREADS, SPREADS)
def test_a_list_is_looked_up_right_however_it_is_spread(data: st.DataObject, listed: int, looked_up: int) -> None:
    """Lists of every size and width, ids near and far from them."""
    ids = data.draw(st.lists(st.integers(-listed - 1, listed), max_size=60))
    asked = data.draw(st.lists(st.integers(-looked_up - 1, looked_up), max_size=20)) + ids[:5]
    rows = Jagged.from_lists([asked])
    assert transform_rows(rows, [Filter(keep=tuple(ids))]).to_lists() == [[i for i in asked if i in ids]]
    assert transform_rows(rows, [Filter(drop=tuple(ids))]).to_lists() == [[i for i in asked if i not in ids]]
    boundaries = sorted({*ids, 0})
    reached = [[sum(b <= i for b in boundaries) for i in asked]]
    assert transform_rows(rows, [Bucketize(tuple(boundaries))]).to_lists() == reached


REFUSED: dict[str, Callable[[], Any]] = {
    "either the ids to keep or those to drop": lambda: Filter(keep=(1,), drop=(2,)),
    "either the ids to keep": Filter,
    "a filter's id = 9223372036854775808 must be": lambda: Filter(keep=(2**63,)),
    "low = 2 is above high = 1": lambda: Clip(2, 1),
    "low = -9223372036854775809 must be": lambda: Clip(-(2**63) - 1, 1),
    "no boundaries": lambda: Bucketize(()),
    "must ascend": lambda: Bucketize((1, 1)),
    "boundary nan": lambda: Bucketize((float("nan"),)),
    "boundary 1e\\+300": lambda: Bucketize((1e300,)),
    "last = 0 must be at least 1": lambda: Truncate(0),
    "last = 1.5 must be an integer": lambda: Truncate(1.5),  # type: ignore[arg-type]
    "low = 0.5 must be an integer": lambda: Clip(0.5, 2),  # type: ignore[arg-type]
    "rows = 2.5 must be an integer": lambda: Modulo(2.5),  # type: ignore[arg-type]
    "the declared id = 'u' must be an integer": lambda: Missing("u"),  # type: ignore[arg-type]
    "a filter's id = 1.5 must be an integer": lambda: Filter(drop=(1.5,)),  # type: ignore[arg-type]
    "the declared id = 9223372036854775808": lambda: Missing(2**63),
    "rows = 0 must be at least 1": lambda: Modulo(0),
    "rows = 1 must be at least 2": lambda: Direct(1),
    "seed = -1 must lie": lambda: Hash(2, -1),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_meant_is_refused_in_words(words: str) -> None:
    with pytest.raises(ValueError, match=words):
        REFUSED[words]()


def test_what_is_no_transform_is_refused_by_its_feature() -> None:
    group = deduplicate("g", {"a": Jagged.from_lists([[1, 2]])})
    alone: Any = Truncate(2)
    with pytest.raises(TypeError, match=r"group g, feature a: needs a list of transforms, not Truncate\(last=2\)"):
        transform_group(group, {"a": alone})
    anything: Any = [lambda ids: ids]
    with pytest.raises(
        TypeError, match=r"feature a: <function .* is no transform; there are Filter, Truncate, Missing"
    ):
        transform_group(group, {"a": anything})
    with pytest.raises(TypeError, match="rows: 'hash' is no transform"):
        transform_rows(group.features["a"], ["hash"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="does not change ids one by one; transform_rows and transform_group"):
        transform_ids(np.asarray([1, 2]), alone)
