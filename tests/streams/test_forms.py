"""Random batches over all forms against the reference: one property, some examples always, 10,000 in the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from streams.ikjt.dedup import compose, deduplicate, deduplicate_reference, number_rows
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import deduplicate_windows
from streams.ikjt.torchrec import from_kjt, to_kjt, to_vbe
from streams.ikjt.windows import Group, PartialIkjt
from streams.minibatch import LINEAGE_DTYPES, Lineage, MiniBatch
from streams.reshape import concat, slice_batch, split_by_rows
from streams.wire import decode, encode
from tests.streams.ikjt.strategies import dense_columns, feature_groups, shifting_groups
from tests.streams.ikjt.test_dedup import same_ikjt, same_rows
from tests.streams.ikjt.test_partial import assert_it_is_what_the_rule_gives, same_group
from tests.streams.wire.test_codec import same_batch

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Samples:
    """A group before anything is deduplicated: B rows of every feature."""

    name: str
    features: dict[str, Jagged]
    dense: F32 | None
    partial: bool

    @property
    def dense_names(self) -> tuple[str, ...]:
        return () if self.dense is None else tuple(f"{self.name}.dense{k}" for k in range(self.dense.shape[1]))

    def build(self, session_id: npt.NDArray[Any], *, partial: bool) -> Group:
        if partial:
            return deduplicate_windows(self.name, self.features, session_id, self.dense, self.dense_names)
        return deduplicate(self.name, self.features, self.dense, self.dense_names)

    def take(self, places: npt.NDArray[np.int64]) -> Samples:
        """The same of some samples."""
        features = {key: rows.take(places) for key, rows in self.features.items()}
        return replace(self, features=features, dense=None if self.dense is None else self.dense[places])


@st.composite
def samples(draw: st.DrawFn) -> tuple[list[Samples], npt.NDArray[np.uint64]]:
    """One to three groups of the same samples, and their sessions, clustered."""
    size = draw(st.integers(0, 10))
    sessions = np.sort(np.asarray(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)), dtype=np.uint64))
    groups = []
    for g in range(draw(st.integers(1, 3))):
        shifting = draw(st.booleans())
        features = draw(shifting_groups(st.just(size)) if shifting else feature_groups(st.just(size)))
        named = {f"g{g}.{key}": rows for key, rows in features.items()}
        groups.append(Samples(f"g{g}", named, draw(dense_columns(size)), draw(st.booleans())))
    return groups, sessions


def batch_of(groups: Sequence[Group], session_id: npt.NDArray[np.uint64]) -> MiniBatch:
    size = len(session_id)
    columns: dict[str, Any] = {name: np.arange(size).astype(dtype) for name, dtype in LINEAGE_DTYPES.items()}
    return MiniBatch(
        partition=0,
        sequence=0,
        watermark_ms=0,
        fingerprint=0,
        lineage=replace(Lineage(**columns), session_id=session_id),
        labels=np.zeros((size, 1), np.float32),
        dense=np.zeros((size, 0), np.float32),
        groups=tuple(groups),
    )


def assert_each_group_is_the_reference(drawn: list[Samples], session_id: npt.NDArray[np.uint64]) -> list[Group]:
    """Its rows, its windows, and what it expands to; returns the groups in the form that was drawn for each."""
    groups = []
    for each in drawn:
        reference = deduplicate_reference(each.name, each.features, each.dense, each.dense_names)
        exact, windows = (each.build(session_id, partial=partial) for partial in (False, True))
        for group in (exact, windows):
            group.validate()
            assert same_ikjt(group.to_exact(), reference)
            assert all(same_rows(rows, each.features[key]) for key, rows in group.expand().items())
            dense = group.expand_dense()
            assert (None if dense is None else dense.tobytes()) == (
                None if each.dense is None else each.dense.tobytes()
            )
        collided = number_rows(each.features, np.uint64(0), each.dense)
        assert [part.tolist() for part in collided] == [
            part.tolist() for part in number_rows(each.features, dense=each.dense)
        ]
        assert windows.num_values <= exact.num_values
        assert_it_is_what_the_rule_gives(each.features, session_id)
        groups.append(windows if each.partial else exact)
    return groups


def assert_torchrec_holds_the_samples(groups: list[Group], drawn: list[Samples]) -> None:
    """Both of its forms, key by key and group by group, in 64-bit ids and with weights where any key has them."""
    weighted = any(rows.weights is not None for each in drawn for rows in each.features.values())
    keys = [key for each in drawn for key in each.features][::-1]
    for kjt in (to_kjt(groups, keys), to_vbe(groups, keys)):
        assert kjt.keys() == keys
        assert kjt.stride() == groups[0].num_samples
        back = {group.group: group.expand()[group.group] for group in from_kjt(kjt)}
        together = from_kjt(kjt, {each.name: list(each.features) for each in drawn})
        for each, group in zip(drawn, together, strict=True):
            expected = {key: as_torchrec_has_it(rows, weighted=weighted) for key, rows in each.features.items()}
            assert all(same_rows(back[key], rows) for key, rows in expected.items())
            assert same_ikjt(group, deduplicate_reference(each.name, expected))


def as_torchrec_has_it(rows: Jagged, *, weighted: bool) -> Jagged:
    weights = np.ones(len(rows.values), np.float32) if weighted and rows.weights is None else rows.weights
    return Jagged(rows.values.astype(np.int64), rows.offsets, weights)


def assert_any_samples_are_built_alike(
    reshaped: MiniBatch, drawn: list[Samples], session_id: npt.NDArray[np.uint64], places: npt.NDArray[np.int64]
) -> None:
    """What joining or cutting gives is what building from those samples gives, bit by bit."""
    reshaped.validate()
    for group, each in zip(reshaped.groups, drawn, strict=True):
        # A part of a batch stays exact where the whole had no windows, though the part alone would have some.
        partial = isinstance(group, PartialIkjt)
        assert same_group(group, each.take(places).build(session_id[places], partial=partial))


def assert_composed_tuples_are_those_of_a_dictionary(groups: list[Group]) -> None:
    tuples, inverse = compose(groups)
    kinds: dict[tuple[int, ...], int] = {}
    used = list(zip(*(group.inverse.tolist() for group in groups), strict=True))
    assert inverse.tolist() == [kinds.setdefault(each, len(kinds)) for each in used]
    assert [tuple(each) for each in tuples.tolist()] == list(kinds)


def count(drawn: list[Samples], groups: list[Group]) -> None:
    """What was drawn, for `--hypothesis-show-statistics`: a form that never comes is not held by anything."""
    features = [rows for each in drawn for rows in each.features.values()]
    for name, drawn_it in {
        "a partial group": any(isinstance(group, PartialIkjt) for group in groups),
        "an exact group": any(not isinstance(group, PartialIkjt) for group in groups),
        "a partial group asked for and not there": any(
            each.partial and not isinstance(group, PartialIkjt) for each, group in zip(drawn, groups, strict=True)
        ),
        "a group of several features": any(len(each.features) > 1 for each in drawn),
        "several groups": len(drawn) > 1,
        "dense columns": any(each.dense is not None for each in drawn),
        "weights": any(rows.weights is not None for rows in features),
        "int32 ids": any(rows.values.dtype == np.int32 for rows in features),
        "ids beyond int32": any(not np.array_equal(rows.values, rows.values.astype(np.int32)) for rows in features),
        "a row that repeats": any(group.num_rows < group.num_samples for group in groups),
        "no samples": groups[0].num_samples == 0,
    }.items():
        if drawn_it:
            event(name)


def assert_everything(drawn: list[Samples], session_id: npt.NDArray[np.uint64], cut: int) -> None:
    groups = assert_each_group_is_the_reference(drawn, session_id)
    batch = batch_of(groups, session_id)
    batch.validate()
    assert same_batch(decode(encode(batch)), batch)
    assert batch.content_hash == batch_of([group.to_exact() for group in groups], session_id).content_hash
    at, places = min(cut, len(batch)), np.arange(len(batch))
    halves = [slice_batch(batch, 0, at), slice_batch(batch, at, len(batch))]
    for half, part in zip(halves, (places[:at], places[at:]), strict=True):
        assert_any_samples_are_built_alike(half, drawn, session_id, part)
        assert same_batch(decode(encode(half)), half)
    assert same_batch(concat(halves), batch)
    assert same_batch(concat(split_by_rows(batch, cut + 1)), batch)
    twice = np.concatenate([places, places])
    assert_any_samples_are_built_alike(concat([batch, batch]), drawn, session_id, twice)
    assert_composed_tuples_are_those_of_a_dictionary(groups)
    assert_torchrec_holds_the_samples(groups, drawn)


@settings(max_examples=100, deadline=None)
@given(samples(), st.integers(0, 10))
def test_a_random_batch_over_all_forms_equals_the_reference(
    drawn: tuple[list[Samples], npt.NDArray[np.uint64]], cut: int
) -> None:
    assert_everything(*drawn, cut)


@pytest.mark.audit
@settings(max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples(), st.integers(0, 10))
def test_ten_thousand_random_batches_over_all_forms_equal_the_reference(
    drawn: tuple[list[Samples], npt.NDArray[np.uint64]], cut: int
) -> None:
    count(drawn[0], [each.build(drawn[1], partial=each.partial) for each in drawn[0]])
    assert_everything(*drawn, cut)


def test_a_batch_may_mix_all_forms_and_plain_features() -> None:
    rows = Jagged.from_lists([[1, 2], [1, 2, 3], [2, 3, 4]])
    weighted = Jagged(rows.values.astype(np.int32), rows.offsets, np.ones(len(rows.values), np.float32))
    session_id = np.zeros(3, np.uint64)
    age = np.asarray([[3.0], [3.0], [3.0]], np.float32)
    drawn = [
        Samples("history", {"h": rows, "w": weighted}, None, partial=True),
        Samples("fallback", {"a": rows, "b": Jagged.from_lists([[1], [1], [1]])}, None, partial=True),
        Samples("user", {"u": Jagged.from_lists([[9], [9], [9]])}, age, partial=False),
        Samples("item", {"i": Jagged.from_lists([[4], [5], []])}, None, partial=False),
    ]
    assert_everything(drawn, session_id, 1)
    forms = [isinstance(each.build(session_id, partial=each.partial), PartialIkjt) for each in drawn]
    assert forms == [True, False, False, False]
