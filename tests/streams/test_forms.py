"""Random batches over all forms against the reference: one property, some examples always, 10,000 in the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.ikjt.dedup import compose, deduplicate, deduplicate_reference
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import deduplicate_windows
from streams.ikjt.torchrec import from_kjt, to_kjt, to_vbe
from streams.ikjt.windows import Group, PartialIkjt
from streams.minibatch import LINEAGE_DTYPES, Lineage, MiniBatch
from streams.reshape import concat, slice_batch, split_by_rows
from streams.wire import decode, encode
from tests.streams.ikjt.strategies import dense_columns, feature_groups, shifting_groups
from tests.streams.ikjt.test_dedup import same_ikjt, same_rows
from tests.streams.ikjt.test_partial import assert_it_is_what_the_rule_gives
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
        assert windows.num_values <= exact.num_values
        assert_it_is_what_the_rule_gives(each.features, session_id)
        groups.append(windows if each.partial else exact)
    return groups


def assert_torchrec_holds_the_samples(groups: list[Group], drawn: list[Samples]) -> None:
    """Both of its forms, key by key, in 64-bit ids and with weights where any key has them."""
    weighted = any(rows.weights is not None for each in drawn for rows in each.features.values())
    keys = [key for each in drawn for key in each.features][::-1]
    for kjt in (to_kjt(groups, keys), to_vbe(groups, keys)):
        assert kjt.keys() == keys
        back = {group.group: group.expand()[group.group] for group in from_kjt(kjt)}
        for each in drawn:
            for key, rows in each.features.items():
                weights = np.ones(len(rows.values), np.float32) if weighted and rows.weights is None else rows.weights
                assert same_rows(back[key], Jagged(rows.values.astype(np.int64), rows.offsets, weights))


def assert_everything(drawn: list[Samples], session_id: npt.NDArray[np.uint64], cut: int) -> None:
    groups = assert_each_group_is_the_reference(drawn, session_id)
    batch = batch_of(groups, session_id)
    batch.validate()
    assert same_batch(decode(encode(batch)), batch)
    assert batch.content_hash == batch_of([group.to_exact() for group in groups], session_id).content_hash
    at = min(cut, len(batch))
    halves = [slice_batch(batch, 0, at), slice_batch(batch, at, len(batch))]
    for half, part in zip(halves, (slice(0, at), slice(at, None)), strict=True):
        half.validate()
        expanded = [group.expand() for group in half.groups]
        places = np.arange(len(batch))[part]
        for rows_of, each in zip(expanded, drawn, strict=True):
            assert all(same_rows(rows, each.features[key].take(places)) for key, rows in rows_of.items())
    assert same_batch(concat(halves), batch)
    assert same_batch(concat(split_by_rows(batch, cut + 1)), batch)
    tuples, inverse = compose(groups)
    for g, group in enumerate(groups):
        assert tuples[inverse, g].tolist() == group.inverse.tolist()
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
