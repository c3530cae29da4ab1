"""Dense columns of groups: each sample has its event's own values, and a row is as many samples as share all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.config import BatchConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.packer import group_of
from streams.clock_mark import ClockMark, MarkKind
from streams.events.event import ListColumn
from streams.events.schema import DenseFeature, EventSchema, FormName
from streams.ikjt.dedup import deduplicate_reference
from streams.ikjt.jagged import Jagged
from streams.ikjt.windows import PartialIkjt
from streams.minibatch import MiniBatch
from streams.wire import decode, encode, kjt_bytes, most_bytes
from tests.sessionizer.events import SCHEMA, batches_of, columns, configs, histories_of, streams
from tests.sessionizer.oracle import Ev
from tests.streams.wire.test_codec import same_batch

F32 = npt.NDArray[np.float32]

NAMES = ("age", "price", "mood", "tenure")
UNGROUPED = replace(SCHEMA, dense=tuple(DenseFeature(name=name, field=name) for name in NAMES))
OFTEN = (0.0, -0.0, 1.5)
"""Few values, so that rows repeat; the zeros are equal numbers and different bits."""


def grouped(form: FormName = "exact") -> EventSchema:
    """Two columns with the user, against the order of the schema; one with the history; the price with none."""
    user, history = UNGROUPED.groups
    return replace(
        UNGROUPED,
        groups=(replace(user, dense=("tenure", "age")), replace(history, form=form, dense=("mood",))),
    )


def run(
    schema: EventSchema, config: SessionConfig, events: Sequence[Ev], dense: F32, polls: Sequence[int]
) -> list[MiniBatch]:
    """All mini-batches of these events, event `o` with the values `dense[o]`."""
    core = PartitionCore(schema, config, BatchConfig(samples=5), 0)
    effects = []
    for start, end in pairwise(sorted({0, *(p for p in polls if p < len(events)), len(events)})):
        fed = replace(columns(events[start:end], start), dense=dense[start:end])
        effects += core.feed(fed, rejected=0, next_offset=end)
    effects += core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.END))
    return batches_of(effects)


def drawn(events: Sequence[Ev], seed: int) -> F32:
    return np.random.default_rng(seed).choice(OFTEN, (len(events), len(NAMES))).astype(np.float32)


def bits(values: F32) -> list[list[int]]:
    return np.ascontiguousarray(values).view(np.int32).tolist()  # type: ignore[no-any-return]


polls = st.lists(st.integers(1, 59), max_size=4)


@pytest.mark.parametrize("form", ["exact", "partial"])
@given(streams(), configs, st.integers(0, 2**32 - 1), polls)
def test_expanding_gives_every_sample_its_own_values(
    form: FormName, events: list[Ev], config: SessionConfig, seed: int, cuts: list[int]
) -> None:
    dense = drawn(events, seed)
    for batch in run(grouped(form), config, events, dense, cuts):
        own = dense[batch.lineage.offset]
        user, history, item = batch.groups
        assert (user.dense_names, history.dense_names, item.dense_names) == (("tenure", "age"), ("mood",), ())
        assert bits(batch.dense) == bits(own[:, [1]])
        assert user.dense is not None
        assert history.dense is not None
        assert bits(user.dense[user.inverse]) == bits(own[:, [3, 0]])
        assert bits(history.dense[history.inverse]) == bits(own[:, [2]])
        assert isinstance(history, PartialIkjt) is (form == "partial")
        batch.validate()


@given(streams(), configs, st.integers(0, 2**32 - 1))
def test_rows_are_equal_only_if_ids_and_dense_columns_are(events: list[Ev], config: SessionConfig, seed: int) -> None:
    for batch in run(grouped(), config, events, drawn(events, seed), ()):
        for group in batch.groups:
            truth = deduplicate_reference(group.group, group.expand(), group.expand_dense(), group.dense_names)
            assert group.inverse.tolist() == truth.inverse.tolist()
            assert {key: rows.to_lists() for key, rows in group.features.items()} == {
                key: rows.to_lists() for key, rows in truth.features.items()
            }
            if truth.dense is not None:
                assert group.dense is not None
                assert bits(group.dense) == bits(truth.dense)


@pytest.mark.parametrize("form", ["exact", "partial"])
@given(streams(), configs, st.integers(0, 2**32 - 1))
def test_a_mini_batch_comes_back_from_the_wire_as_it_went(
    form: FormName, events: list[Ev], config: SessionConfig, seed: int
) -> None:
    for batch in run(grouped(form), config, events, drawn(events, seed), ()):
        message = encode(batch)
        assert same_batch(decode(message), batch)
        assert len(message) <= most_bytes(batch)
        assert kjt_bytes(batch) > 0


@given(streams(), configs, st.integers(0, 2**32 - 1))
def test_grouping_a_column_changes_neither_samples_nor_ids(events: list[Ev], config: SessionConfig, seed: int) -> None:
    dense = drawn(events, seed)
    exact, partial, plain = (
        run(schema, config, events, dense, ()) for schema in (grouped(), grouped("partial"), UNGROUPED)
    )
    assert [batch.content_hash for batch in exact] == [batch.content_hash for batch in partial]
    assert [batch.lineage.offset.tolist() for batch in exact] == [batch.lineage.offset.tolist() for batch in plain]
    assert histories_of(exact) == histories_of(plain)
    assert all(group.dense is None for batch in plain for group in batch.groups)


def test_a_column_that_stays_the_same_is_kept_once_a_row() -> None:
    events = [Ev(1000 + n, n, user=1 + n // 10) for n in range(20)]
    dense = np.repeat(np.array([[30, 1, 0.5, 2], [41, 1, 0.5, 3]], np.float32), 10, axis=0)
    (batch,) = run(grouped(), SessionConfig(gap_ms=50, lateness_ms=0), events, dense, ())[:1]
    assert len(batch) == 5
    assert batch.groups[0].dense is not None
    assert batch.groups[0].dense.tolist() == [[2.0, 30.0]]
    assert batch.groups[0].inverse.tolist() == [0] * 5


def test_neighbours_that_share_their_ids_but_not_their_columns_are_different_rows() -> None:
    same = ListColumn(rows=Jagged.from_lists([[7, 8]]), index=np.zeros(4, np.int32))
    column = np.array([[0.0], [0.0], [-0.0], [0.0]], np.float32)
    group = group_of("g", {"a": same}, column, ("x",))
    assert group.inverse.tolist() == [0, 0, 1, 0]
    assert group.features["a"].to_lists() == [[7, 8], [7, 8]]
    assert group.dense is not None
    assert np.signbit(group.dense[:, 0]).tolist() == [False, True]
