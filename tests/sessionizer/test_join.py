"""Outcomes of their own: the core against the stateless oracle, and each rule by an example."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import Effect
from streams.clock_mark import ClockMark, MarkKind
from streams.errors import ConfigError
from streams.events.schema import CombineRule, EventKind, EventSchema, Label
from tests.sessionizer.events import (
    LAST,
    SCHEMA,
    batches_of,
    columns,
    configs,
    corrections_of,
    histories_of,
    labels_of,
    offsets_of,
    run,
    stages_of,
)
from tests.sessionizer.join_oracle import joined
from tests.sessionizer.oracle import Ev

WATCH = 4
WATCHED = Label(name="watched", field="seconds", rule="ge", threshold=WATCH, combine="sum")
BOTH = dataclasses.replace(SCHEMA, labels=(*SCHEMA.labels, WATCHED))
SHOWN, SAID, RATED = EventKind.IMPRESSION, EventKind.OUTCOME, EventKind.LABELLED

polls = st.lists(st.integers(1, 59), max_size=8)
all_joins = st.builds(
    JoinConfig,
    window_ms=st.integers(8, 40),
    policy=st.sampled_from(["wait", "wait-positive", "correct"]),
    early_ms=st.integers(0, 8),
)


@st.composite
def streams(draw: st.DrawFn) -> list[Ev]:
    """Few users, ids and times: ties, duplicates, lateness and outcomes of every fate are common."""
    event = st.builds(
        Ev,
        time=st.integers(1000, 1060),
        id=st.integers(0, 40),
        user=st.integers(1, 3),
        item=st.integers(0, 3),
        label=st.integers(-1, 1),
        hash=st.integers(0, 2),
        kind=st.sampled_from([SHOWN, SAID, SAID, RATED]),
        of=st.integers(0, 20),
        seconds=st.integers(-1, 3),
    )
    return draw(st.lists(event, max_size=60))


def core_of(
    config: SessionConfig, joins: JoinConfig, schema: EventSchema = SCHEMA, batch_samples: int = 4
) -> PartitionCore:
    return PartitionCore(schema, config, BatchConfig(samples=batch_samples), 0, joins)


def counts_of(core: PartitionCore) -> dict[str, int]:
    return {name: getattr(core.account, name) for name in ("joined", "settled", "missed", "orphans")}


@pytest.mark.parametrize(("schema", "watch"), [(SCHEMA, None), (BOTH, WATCH)], ids=["one label", "two labels"])
@given(streams(), configs, all_joins, st.integers(1, 7), polls)
def test_labels_readiness_and_histories_are_those_of_the_oracle(
    schema: EventSchema, watch: int | None, events: list[Ev], config: SessionConfig, joins: JoinConfig,
    batch_samples: int, cuts: list[int],
) -> None:  # fmt: skip
    config = dataclasses.replace(config, max_held_samples=1000)
    truth = joined(events, config, joins, (batch_samples, LAST, watch))
    core = core_of(config, joins, schema, batch_samples)
    batches = batches_of(run(core, events, cuts, schema))
    assert labels_of(batches) == truth.labels
    assert stages_of(batches) == truth.stages
    assert corrections_of(batches) == sorted((each.sample, each.turned) for each in truth.corrections)
    assert offsets_of(batches) == truth.batches
    assert histories_of(batches) == truth.history
    assert counts_of(core) == truth.counts
    assert (core.held, core.num_remembered) == (0, 0)
    assert core.account.corrected == len(truth.corrections)


@given(streams(), configs, all_joins, polls)
def test_where_polls_end_does_not_matter_even_when_a_cap_sends_samples_off(
    events: list[Ev], config: SessionConfig, joins: JoinConfig, cuts: list[int]
) -> None:
    whole, split = core_of(config, joins), core_of(config, joins)
    effects = [batches_of(run(core, events, where)) for core, where in ((whole, []), (split, cuts))]
    assert [batch.content_hash for batch in effects[0]] == [batch.content_hash for batch in effects[1]]
    assert [batch.watermark_ms for batch in effects[0]] == [batch.watermark_ms for batch in effects[1]]
    assert whole.account == split.account


@given(streams(), configs, all_joins, polls)
def test_a_core_restored_after_every_poll_goes_on_as_if_it_had_never_stopped(
    events: list[Ev], config: SessionConfig, joins: JoinConfig, cuts: list[int]
) -> None:
    unbroken = core_of(config, joins)
    expected = [batch.content_hash for batch in batches_of(run(unbroken, events, cuts))]
    core, effects = core_of(config, joins), list[Effect]()
    bounds = sorted({0, *(p for p in cuts if p < len(events)), len(events)})
    for start, end in pairwise(bounds):
        effects += core.feed(columns(events[start:end], start), rejected=0, next_offset=end)
        core = PartitionCore.restore(SCHEMA, config, BatchConfig(samples=4), core.cut(), joins)
    effects += core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.END))
    assert [batch.content_hash for batch in batches_of(effects)] == expected
    assert core.account == unbroken.account


@given(streams(), configs, all_joins, st.lists(st.tuples(st.integers(0, 60), st.integers(1, 3)), max_size=4), polls)
def test_what_an_erased_user_had_left_behind_is_in_no_later_batch(
    events: list[Ev], config: SessionConfig, joins: JoinConfig, erased: list[tuple[int, int]], cuts: list[int]
) -> None:
    stream = list(events)
    for where, user in erased:
        stream.insert(where, Ev(2000, 10_000 + len(stream), user, kind=EventKind.TOMBSTONE))
    core, whole = core_of(config, joins), core_of(config, joins)
    bounds = sorted({0, *(p for p in cuts if p < len(stream)), len(stream)})
    samples: list[int] = []
    for start, end in pairwise(bounds):
        batches = batches_of(core.feed(columns(stream[start:end], start), rejected=0, next_offset=end))
        offsets = [offset for batch in offsets_of(batches) for offset in batch]
        for at in [at for at in range(start) if stream[at].kind == EventKind.TOMBSTONE]:
            assert not [o for o in offsets if o < at and stream[o].user == stream[at].user]
        samples += offsets
        core = PartitionCore.restore(SCHEMA, config, BatchConfig(samples=4), core.cut(), joins)
    last = core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.END))
    samples += [offset for batch in offsets_of(batches_of(last)) for offset in batch]
    assert samples == [offset for batch in offsets_of(batches_of(run(whole, stream))) for offset in batch]
    assert core.account == whole.account
    assert core.held == 0
    assert core.account.tombstones == len(erased)


WIDE = SessionConfig(gap_ms=10, lateness_ms=0)


def one_sample(outcomes: list[Ev], labels: tuple[Label, ...], joins: JoinConfig | None = None) -> list[float]:
    """Labels of an impression at 1000 with the id 1."""
    schema = dataclasses.replace(SCHEMA, labels=labels, histories=(), groups=())
    core = core_of(dataclasses.replace(WIDE, lateness_ms=5), joins or JoinConfig(window_ms=50), schema)
    (labels_of_it,) = labels_of(batches_of(run(core, [Ev(1000, 1, 7, kind=SHOWN), *outcomes], [], schema))).values()
    return labels_of_it


def said(time: int, event_id: int, label: int = 1) -> Ev:
    return Ev(time, event_id, 7, label=label, kind=SAID, of=1)


def liked(combine: CombineRule, threshold: float = 1.0) -> tuple[Label, ...]:
    return (Label(name="liked", field="liked", rule="ge", threshold=threshold, combine=combine),)


@pytest.mark.parametrize(
    ("combine", "threshold", "expected"), [("any", 1.0, 1.0), ("last", 1.0, 0.0), ("max", 2.0, 0.0), ("sum", 2.0, 1.0)]
)
def test_several_outcomes_become_one_label_by_its_rule(combine: CombineRule, threshold: float, expected: float) -> None:
    outcomes = [said(1001, 2), said(1003, 3), said(1004, 4, label=0), said(1005, 5, label=-1)]
    assert one_sample(outcomes, liked(combine, threshold)) == [expected]


def test_an_outcome_that_says_nothing_of_a_label_leaves_it_as_it_is() -> None:
    assert one_sample([said(1001, 2), said(1002, 3, label=-1)], liked("last")) == [1.0]


def test_an_outcome_of_the_same_millisecond_counts_though_its_id_comes_first() -> None:
    core = core_of(WIDE, JoinConfig(window_ms=50))
    batches = batches_of(run(core, [Ev(1000, 1, 7, label=1, kind=SAID, of=9), Ev(1000, 9, 7, kind=SHOWN)]))
    assert labels_of(batches) == {1: [1.0]}


def test_the_window_ends_one_millisecond_before_its_length() -> None:
    assert one_sample([said(1049, 2)], liked("any")) == [1.0]
    assert one_sample([said(1050, 2)], liked("any")) == [0.0]


def test_an_outcome_that_is_early_by_at_most_early_ms_counts() -> None:
    joins = JoinConfig(window_ms=50, early_ms=3)
    assert one_sample([said(997, 2)], liked("any"), joins) == [1.0]
    assert one_sample([said(996, 2)], liked("any"), joins) == [0.0]


def test_a_session_that_is_over_waits_for_the_window_of_its_last_sample() -> None:
    core = core_of(WIDE, JoinConfig(window_ms=50), batch_samples=1)
    core.feed(columns([Ev(1000, 1, 7, kind=SHOWN)]), rejected=0, next_offset=1)

    def idle(value_ms: int) -> list[list[int]]:
        mark = ClockMark(partition=0, after_offset=1, kind=MarkKind.IDLE, value_ms=value_ms)
        return offsets_of(batches_of(core.apply(mark)))

    assert idle(1049) == []
    assert (core.num_open_sessions, core.num_waiting_sessions) == (0, 1)
    assert idle(1050) == [[0]]
    assert core.held == 0


def test_a_settled_session_leaves_before_one_that_was_over_earlier() -> None:
    core = core_of(WIDE, JoinConfig(window_ms=50, policy="wait-positive"), batch_samples=1)
    events = [
        Ev(1000, 1, 7, kind=SHOWN),
        Ev(1001, 2, 8, kind=SHOWN),
        Ev(1020, 3, 8, label=1, kind=SAID, of=2),
        Ev(1030, 4, 8, label=1, kind=SAID, of=2),
    ]
    assert offsets_of(batches_of(run(core, events))) == [[1], [0]]
    assert counts_of(core) == {"joined": 1, "settled": 1, "missed": 0, "orphans": 0}


def test_an_item_enters_the_history_when_it_is_liked_and_not_when_it_was_shown() -> None:
    core = core_of(SessionConfig(gap_ms=10, lateness_ms=0), JoinConfig(window_ms=5), batch_samples=1)
    events = [
        Ev(1000, 1, 7, item=100, kind=SHOWN),
        Ev(1002, 2, 7, item=101, kind=SHOWN),
        Ev(1002, 3, 7, item=0, label=1, kind=SAID, of=1),
        Ev(1003, 4, 7, item=102, kind=SHOWN),
    ]
    assert histories_of(batches_of(run(core, events))) == {0: [], 1: [], 3: [100]}


def test_the_history_of_a_sample_that_waits_is_kept_for_it() -> None:
    core = core_of(WIDE, JoinConfig(window_ms=500), batch_samples=1)
    events = [Ev(1000 + 20 * i, 2 * i, 7, item=i + 1, kind=SHOWN) for i in range(20)]
    events += [Ev(1001 + 20 * i, 2 * i + 1, 7, label=1, kind=SAID, of=2 * i) for i in range(20)]
    stream = sorted(events)
    found = histories_of(batches_of(run(core, stream, list(range(1, 40)))))
    shown = [at for at, event in enumerate(stream) if event.kind == SHOWN]
    assert [found[at] for at in shown] == [list(range(max(1, i - LAST + 1), i + 1)) for i in range(20)]


def test_a_cap_sends_the_session_off_that_would_be_ready_first_and_its_outcome_is_missed() -> None:
    config = SessionConfig(gap_ms=10, lateness_ms=0, max_held_samples=2, max_samples=2)
    core = core_of(config, JoinConfig(window_ms=500), batch_samples=1)
    events = [Ev(1000 + 20 * i, i + 1, i + 1, kind=SHOWN) for i in range(3)]
    events.append(Ev(1041, 9, 1, label=1, kind=SAID, of=1))
    effects = core.feed(columns(events), rejected=0, next_offset=4)
    assert offsets_of(batches_of(effects)) == [[0]]
    core.apply(ClockMark(partition=0, after_offset=4, kind=MarkKind.END))
    assert counts_of(core) == {"joined": 0, "settled": 0, "missed": 1, "orphans": 0}
    assert core.account.sessions_cut == 1


def test_the_delays_of_labels_are_counted_by_their_magnitude() -> None:
    core = core_of(WIDE, JoinConfig(window_ms=50))
    run(core, [Ev(1000, 1, 7, kind=SHOWN), said(1000, 2), said(1001, 3), said(1003, 4), said(1060, 5)])
    assert core.label_delays[:8].tolist() == [1, 1, 1, 0, 0, 0, 1, 0]
    assert counts_of(core)["missed"] == 1


def test_outcomes_of_another_epoch_are_orphans() -> None:
    core = core_of(WIDE, JoinConfig(window_ms=50))
    run(core, [Ev(1000, 1, 7, kind=SHOWN)])
    core.feed(columns([said(1001, 2)], 1), rejected=0, next_offset=2)
    core.apply(ClockMark(partition=0, after_offset=2, kind=MarkKind.END))
    assert counts_of(core)["orphans"] == 1


@pytest.mark.parametrize("unit", ["sample", "session"])
def test_negatives_are_sampled_by_identity_and_positives_stay(unit: str) -> None:
    joins = JoinConfig(window_ms=5, negative_rate=0.25, negative_unit=unit)  # type: ignore[arg-type]
    schema = dataclasses.replace(SCHEMA, histories=(), groups=())
    events = [Ev(1000 + i // 4, i, i // 4, label=int(i % 10 == 0)) for i in range(20_000)]
    core = core_of(SessionConfig(gap_ms=50, lateness_ms=0), joins, schema, batch_samples=64)
    kept = labels_of(batches_of(run(core, events, [], schema)))
    assert all(at in kept for at in range(0, 20_000, 10))
    negatives = [at for at in kept if at % 10]
    assert len(negatives) / 18_000 == pytest.approx(0.25, abs=0.03)
    assert core.account.sampled_out == 18_000 - len(negatives)
    per_session = np.unique([at // 4 for at in negatives], return_counts=True)[1]
    assert (per_session.max() >= 3 and per_session.min() >= 3) == (unit == "session")


@pytest.mark.parametrize(
    "wrong", [{"window_ms": 0}, {"window_ms": 5, "early_ms": 6}, {"negative_rate": 0.0}, {"negative_rate": 1.5}]
)
def test_joins_that_cannot_work_are_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=rf"join\.{list(wrong)[-1]} must lie"):
        JoinConfig(**wrong)  # type: ignore[arg-type]


def test_a_part_of_a_session_leaves_up_to_its_first_sample_that_may_still_be_liked() -> None:
    parts = BatchConfig(samples=4, fresh_ms=1, fresh="parts")
    core = PartitionCore(SCHEMA, WIDE, parts, 0, JoinConfig(window_ms=50))
    events = [Ev(1000 + 8 * i, i + 1, 7, item=i + 1, kind=SHOWN) for i in range(8)]
    core.feed(columns(events), rejected=0, next_offset=8)
    mark = ClockMark(partition=0, after_offset=8, kind=MarkKind.FRESH)
    assert offsets_of(batches_of(core.apply(mark))) == [[0]]
    core.apply(ClockMark(partition=0, after_offset=8, kind=MarkKind.IDLE, value_ms=1080))
    assert core.num_waiting_sessions == 1
    assert offsets_of(batches_of(core.apply(mark))) == [[1, 2, 3]]
    late = Ev(1081, 20, 7, label=1, kind=SAID, of=8)
    core.feed(columns([late], 8), rejected=0, next_offset=9)
    last = batches_of(core.apply(ClockMark(partition=0, after_offset=9, kind=MarkKind.END)))
    assert labels_of(last) == {4: [0.0], 5: [0.0], 6: [0.0], 7: [1.0]}
