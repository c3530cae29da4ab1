"""Count and recency of histories: the core against the oracles, each rule by an example, and the logarithm."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import Effect
from sessionizer.measures import log1p
from streams import wire
from streams.clock_mark import ClockMark, MarkKind
from streams.events.schema import EventKind
from tests.sessionizer import join_oracle, test_join
from tests.sessionizer.events import (
    LAST,
    MEASURED,
    SCHEMA,
    batches_of,
    columns,
    configs,
    histories_of,
    seen_of,
    streams,
)
from tests.sessionizer.events import run as run_all
from tests.sessionizer.oracle import Ev, brute_force

WIDE, BATCHES = SessionConfig(gap_ms=10, lateness_ms=0), BatchConfig(samples=4)
Seen = dict[int, tuple[int, int | None]]

polls = st.lists(st.integers(1, 59), max_size=8)


def core_of(config: SessionConfig = WIDE, joins: JoinConfig | None = None) -> PartitionCore:
    return PartitionCore(MEASURED, config, BATCHES, 0, joins)


def run(core: PartitionCore, events: list[Ev]) -> Seen:
    """What samples of one more epoch were told."""
    start = core.next_offset
    effects: list[Effect] = core.feed(columns(events, start), rejected=0, next_offset=start + len(events))
    return seen_of(batches_of([*effects, *end(core)]), MEASURED)


def end(core: PartitionCore) -> list[Effect]:
    return core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.END))


@given(streams(), configs, polls)
def test_the_core_agrees_with_the_brute_force_sessionizer_also_when_it_is_restored_after_every_poll(
    events: list[Ev], config: SessionConfig, cuts: list[int]
) -> None:
    truth = brute_force(events, config, BATCHES.samples, LAST)
    core, effects = core_of(config), list[Effect]()
    for start, stop in pairwise(sorted({0, *(p for p in cuts if p < len(events)), len(events)})):
        effects += core.feed(columns(events[start:stop], start), rejected=0, next_offset=stop)
        core = PartitionCore.restore(MEASURED, config, BATCHES, core.cut())
    batches = [wire.decode(wire.encode(batch)) for batch in batches_of([*effects, *end(core)])]
    assert seen_of(batches, MEASURED) == truth.seen
    assert histories_of(batches) == truth.history


@given(test_join.streams(), configs, test_join.all_joins)
def test_outcomes_count_from_when_they_act_and_corrections_are_told_what_their_samples_were(
    events: list[Ev], config: SessionConfig, joins: JoinConfig
) -> None:
    config = dataclasses.replace(config, max_held_samples=1000)
    batches = batches_of(run_all(core_of(config, joins), events))
    assert seen_of(batches, MEASURED) == join_oracle.joined(events, config, joins, (4, LAST, None)).seen


@given(streams(), configs)
def test_measures_change_nothing_else(events: list[Ev], config: SessionConfig) -> None:
    plain = batches_of(run_all(PartitionCore(SCHEMA, config, BATCHES, 0), events))
    found = batches_of(run_all(core_of(config), events))
    assert [batch.lineage.offset.tolist() for batch in found] == [batch.lineage.offset.tolist() for batch in plain]
    assert histories_of(found) == histories_of(plain)


def test_entries_are_counted_beyond_the_last_ones_and_those_of_one_millisecond_together() -> None:
    liked = [Ev(1000 + 2 * i, i, 7, 100 + i, 1) for i in range(2 * LAST)]
    same = [Ev(1100, 50 + i, 7, 200 + i, 1) for i in range(3)]
    seen = run(core_of(), [*liked, *same, Ev(1101, 90, 7), Ev(1101, 91, 8)])
    assert [seen[o] for o in range(2 * LAST)] == [(i, 2 if i else None) for i in range(2 * LAST)]
    assert [seen[2 * LAST + i] for i in range(3)] == 3 * [(6, 90)]
    assert (seen[9], seen[10]) == ((9, 1), (0, None))


def test_only_what_enters_the_history_counts() -> None:
    assert run(core_of(), [Ev(1000, 1, 7, 100, 1), Ev(1005, 2, 7, 101, 0), Ev(1009, 3, 7)])[2] == (1, 9)


def test_a_new_epoch_goes_on_counting_unless_its_times_lie_before_what_was_counted() -> None:
    core = core_of()
    run(core, [Ev(1000 + i, i, 7, 100, 1) for i in range(5)])
    assert run(core, [Ev(1500, 10, 7)]) == {5: (5, 496)}
    assert run(core, [Ev(1001, 11, 7, 100, 1), Ev(1002, 12, 7)]) == {6: (0, None), 7: (1, 1)}


def test_an_erased_user_is_counted_from_nothing() -> None:
    erase = Ev(1100, 50, 7, kind=EventKind.TOMBSTONE)
    seen = run(
        core_of(), [*(Ev(1000 + i, i, 7, 100, 1) for i in range(5)), erase, Ev(1200, 51, 7, 9, 1), Ev(1300, 52, 7)]
    )
    assert (seen[6], seen[7]) == ((0, None), (1, 100))


def test_what_was_remembered_before_anybody_asked_for_a_count_is_counted() -> None:
    plain = PartitionCore(SCHEMA, WIDE, BATCHES, 0)
    run_all(plain, [Ev(1000 + i, i, 7, 100, 1) for i in range(5)])
    assert run(PartitionCore.restore(MEASURED, WIDE, BATCHES, plain.cut()), [Ev(2000, 9, 7)]) == {5: (5, 996)}


def test_samples_that_see_the_same_history_share_its_count() -> None:
    core = core_of(SessionConfig(gap_ms=10, lateness_ms=0))
    events = [Ev(1000, 1, 7, 100, 1), *(Ev(1001 + i, 2 + i, 7) for i in range(3))]
    (batch,) = batches_of(run_all(core, events))
    _, history, _ = batch.groups
    assert history.dense is not None
    assert history.dense[:, 0].tolist() == pytest.approx([0, math.log(2)])
    assert batch.dense[:, 0].tolist() == pytest.approx([-1, *(math.log1p(i / 1000) for i in (1, 2, 3))])


@given(st.one_of(st.integers(0, 2**63 - 1).map(float), st.integers(1, 2**63 - 1).map(lambda ms: ms / 1000)))
def test_the_logarithm_is_that_of_the_platform_and_finite(x: float) -> None:
    (found,) = log1p(np.array([x]))
    assert found == pytest.approx(math.log1p(x), rel=1e-12, abs=0)
    assert 0 <= np.float32(found) < 44


def test_every_count_up_to_a_million_is_told_from_its_neighbours() -> None:
    counts = np.arange(1_000_000)
    told = log1p(counts.astype(np.float64)).astype(np.float32)
    assert np.array_equal(np.rint(np.expm1(told.astype(np.float64))), counts)
