"""Outcomes in a topic of their own: whatever the interleaving, what comes out is what the stateless oracle says."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.config import BatchConfig, JoinConfig, ProfilesConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import Effect
from state.store import MISSING
from streams.clock_mark import WHOLE, ClockMark, MarkKind
from streams.errors import ConfigError, InvariantError
from streams.events.schema import EventKind
from streams.inputs import Input, Position
from tests.sessionizer.events import (
    LAST,
    SCHEMA,
    batches_of,
    columns,
    corrections_of,
    histories_of,
    labels_of,
    offsets_of,
    stages_of,
)
from tests.sessionizer.join_oracle import joined_of_two
from tests.sessionizer.oracle import Ev

SHOWN, SAID, RATED = EventKind.IMPRESSION, EventKind.OUTCOME, EventKind.LABELLED
INTERACTIONS, OUTCOMES = Input.INTERACTIONS, Input.OUTCOMES

joins_of_any_kind = st.builds(
    JoinConfig,
    window_ms=st.integers(8, 40),
    policy=st.sampled_from(["wait", "wait-positive", "correct"]),
    early_ms=st.integers(0, 8),
)


def events_of(kinds: list[EventKind]) -> st.SearchStrategy[list[Ev]]:
    """Few users, ids and times: ties within and between the inputs, duplicates, lateness and every fate are common.

    Never short: in a short one every interleaving comes to the same.
    """
    event = st.builds(
        Ev,
        time=st.integers(1000, 1060),
        id=st.integers(0, 30),
        user=st.integers(1, 3),
        item=st.integers(0, 3),
        label=st.integers(-1, 1),
        hash=st.integers(0, 2),
        kind=st.sampled_from(kinds),
        of=st.integers(0, 20),
        seconds=st.just(-1),
    )
    return st.lists(event, min_size=15, max_size=40)


# Little lateness and much room, for the most part: else all of it waits until the end.
configs = st.builds(
    SessionConfig,
    gap_ms=st.integers(1, 30),
    lateness_ms=st.sampled_from([0, 1, 3, 8, 30]),
    duplicate_horizon_ms=st.integers(1, 60),
    max_samples=st.integers(1, 5),
    max_age_ms=st.integers(1, 30),
    max_held_samples=st.integers(5, 12),
    max_pending_events=st.sampled_from([2, 5, 100, 100]),
)
both = st.tuples(events_of([SHOWN, SHOWN, SAID, RATED]), events_of([SAID]))


@dataclass(frozen=True)
class Decision:
    """A mark and where it stands."""

    after: Position
    kind: MarkKind
    about: Input
    value_ms: int

    @property
    def mark(self) -> ClockMark:
        if self.kind is MarkKind.SHED:
            return ClockMark.at(self.after, self.kind, partition=0, two=True, share=self.share)
        return ClockMark.at(self.after, self.kind, partition=0, two=True, about=self.about, value_ms=self.value_ms)

    @property
    def share(self) -> int:
        """Of the sessions, if they are to be shed: a function of the value, so that none is drawn in vain."""
        return self.value_ms % 5 * WHOLE // 4


@st.composite
def decisions(draw: st.DrawFn, kinds: tuple[MarkKind, ...]) -> list[Decision]:
    """Marks of a live run: later ones stand later in both inputs, or at the same place."""
    num = draw(st.integers(1, 4))
    places = [sorted(draw(st.lists(st.integers(0, 40), min_size=num, max_size=num))) for _ in range(2)]
    return [
        Decision(
            Position(a, b),
            draw(st.sampled_from(kinds)),
            draw(st.sampled_from(list(Input))),
            draw(st.integers(990, 1070)),
        )
        for a, b in zip(*places, strict=True)
    ]


interleavings = st.lists(st.tuples(st.sampled_from(list(Input)), st.integers(1, 12)), min_size=4, max_size=12)


def new_core(
    config: SessionConfig, joins: JoinConfig, batches: BatchConfig | None = None, cut: bytes | None = None
) -> PartitionCore:
    batches = batches or BatchConfig(samples=4)
    if cut is not None:
        return PartitionCore.restore(SCHEMA, config, batches, cut, joins, with_outcomes=True)
    return PartitionCore(SCHEMA, config, batches, 0, joins, with_outcomes=True)


def within(inputs: tuple[list[Ev], list[Ev]], marks: list[Decision]) -> list[Decision]:
    """The marks, none of them behind the ends."""
    ends = [len(events) for events in inputs]
    return [dataclasses.replace(m, after=Position(*map(min, m.after, ends))) for m in marks]


@dataclass
class Run:
    """A core that is fed both inputs in some interleaving."""

    core: PartitionCore
    inputs: tuple[list[Ev], list[Ev]]
    effects: list[Effect]

    def feed(self, source: Input, upto: int) -> None:
        start = self.core.position[source]
        upto = min(upto, len(self.inputs[source]))
        if upto > start:
            events = columns(self.inputs[source][start:upto], start)
            self.effects += self.core.feed(events, rejected=0, next_offset=upto, source=source)

    def reach(self, target: Position, plan: list[tuple[Input, int]]) -> None:
        """Feed up to a position, taking turns as the plan says."""
        while plan and self.core.position != target:
            source, num = plan.pop(0)
            self.feed(source, min(self.core.position[source] + num, target[source]))
        for source in Input:
            self.feed(source, target[source])


def run(
    core: PartitionCore, inputs: tuple[list[Ev], list[Ev]], marks: list[Decision], plan: list[tuple[Input, int]]
) -> list[Effect]:
    """Everything, with the marks at their places and an end mark behind it."""
    going, left = Run(core, inputs, []), list(plan)
    for one in within(inputs, marks):
        going.reach(one.after, left)
        going.effects += core.apply(one.mark)
    end = Position(*map(len, inputs))
    going.reach(end, left)
    return going.effects + core.apply(Decision(end, MarkKind.END, INTERACTIONS, 0).mark)


def counts_of(core: PartitionCore) -> dict[str, int]:
    return {name: getattr(core.account, name) for name in ("joined", "settled", "missed", "orphans")}


@given(both, configs, joins_of_any_kind, st.integers(1, 7), interleavings)
def test_however_the_inputs_are_interleaved_what_comes_out_is_what_the_oracle_says(
    inputs: tuple[list[Ev], list[Ev]], config: SessionConfig, joins: JoinConfig, batch_samples: int,
    plan: list[tuple[Input, int]],
) -> None:  # fmt: skip
    config = dataclasses.replace(config, max_held_samples=1000)
    truth = joined_of_two(inputs, ([], []), config, joins, (batch_samples, LAST, None))
    core = new_core(config, joins, BatchConfig(samples=batch_samples))
    batches = batches_of(run(core, inputs, [], plan))
    assert labels_of(batches) == truth.labels
    assert stages_of(batches) == truth.stages
    assert corrections_of(batches) == sorted((each.sample, each.turned) for each in truth.corrections)
    assert offsets_of(batches) == truth.batches
    assert histories_of(batches) == truth.history
    assert counts_of(core) == truth.counts
    assert core.held == 0
    assert core.account.events == sum(map(len, inputs))


@given(both, configs, joins_of_any_kind, decisions((MarkKind.IDLE,)), interleavings)
def test_a_silent_input_is_moved_on_by_its_marks_as_the_oracle_says(
    inputs: tuple[list[Ev], list[Ev]], config: SessionConfig, joins: JoinConfig, marks: list[Decision],
    plan: list[tuple[Input, int]],
) -> None:  # fmt: skip
    config = dataclasses.replace(config, max_held_samples=1000)
    quiet = tuple(
        [(m.after[source], m.value_ms) for m in within(inputs, marks) if m.about is source] for source in Input
    )
    truth = joined_of_two(inputs, (quiet[0], quiet[1]), config, joins, (4, LAST, None))
    core = new_core(config, joins)
    batches = batches_of(run(core, inputs, marks, plan))
    assert labels_of(batches) == truth.labels
    assert histories_of(batches) == truth.history
    assert counts_of(core) == truth.counts
    # Silence seals batches that are not full: only their borders differ from the oracle's.
    assert [o for batch in offsets_of(batches) for o in batch] == [o for batch in truth.batches for o in batch]


@given(both, configs, joins_of_any_kind, decisions((MarkKind.SHED,)), interleavings)
def test_sessions_are_shed_as_the_oracle_says_however_the_inputs_are_interleaved(
    inputs: tuple[list[Ev], list[Ev]], config: SessionConfig, joins: JoinConfig, marks: list[Decision],
    plan: list[tuple[Input, int]],
) -> None:  # fmt: skip
    config = dataclasses.replace(config, max_held_samples=1000)
    sheds = [(mark.after, mark.share) for mark in within(inputs, marks)]
    truth = joined_of_two(inputs, ([], []), config, joins, (4, LAST, None), sheds)
    core = new_core(config, joins)
    batches = batches_of(run(core, inputs, marks, plan))
    assert offsets_of(batches) == truth.batches
    assert labels_of(batches) == truth.labels
    assert histories_of(batches) == truth.history
    assert corrections_of(batches) == sorted((each.sample, each.turned) for each in truth.corrections)
    assert counts_of(core) == truth.counts
    assert (core.account.shed, core.held) == (len(truth.shed), 0)


ALL = (MarkKind.IDLE, MarkKind.FRESH, MarkKind.SHED, MarkKind.END)


@given(
    both, configs, joins_of_any_kind, decisions(ALL), interleavings,
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), min_size=1, max_size=4),
    st.sampled_from(["whole", "parts"]),
)  # fmt: skip
def test_no_interleaving_and_no_restoring_changes_anything_with_caps_marks_and_erasures(
    inputs: tuple[list[Ev], list[Ev]], config: SessionConfig, joins: JoinConfig, marks: list[Decision],
    plan: list[tuple[Input, int]], erased: list[tuple[int, int]], fresh: str,
) -> None:  # fmt: skip
    stream = list(inputs[0])
    for where, user in erased:
        stream.insert(where, Ev(2000, 10_000 + len(stream), user, kind=EventKind.TOMBSTONE))
    inputs, sizes = (stream, inputs[1]), BatchConfig(samples=4, fresh_ms=1, fresh=fresh)  # type: ignore[arg-type]
    one, other = new_core(config, joins, sizes), new_core(config, joins, sizes)
    expected = batches_of(run(one, inputs, marks, [(OUTCOMES, 1000)]))
    found = batches_of(run(other, inputs, marks, plan))
    assert [batch.content_hash for batch in found] == [batch.content_hash for batch in expected]
    assert [batch.watermark_ms for batch in found] == [batch.watermark_ms for batch in expected]
    assert other.account == one.account
    assert other.label_delays.tolist() == one.label_delays.tolist()
    assert restored_after_every_turn(config, joins, sizes, inputs, marks, plan) == (
        [batch.content_hash for batch in expected],
        one.account,
    )


def restored_after_every_turn(
    config: SessionConfig, joins: JoinConfig, sizes: BatchConfig, inputs: tuple[list[Ev], list[Ev]],
    marks: list[Decision], plan: list[tuple[Input, int]],
) -> tuple[list[int], object]:  # fmt: skip
    """Content hashes and account."""
    going, left = Run(new_core(config, joins, sizes), inputs, []), list(plan)
    end = Decision(Position(*map(len, inputs)), MarkKind.END, INTERACTIONS, 0)
    for one in [*within(inputs, marks), end]:
        while going.core.position != one.after:
            source, num = left.pop(0) if left else (OUTCOMES, 7)
            going.feed(source, min(going.core.position[source] + num, one.after[source]))
            if not left:
                going.feed(INTERACTIONS, min(going.core.position[0] + 5, one.after[0]))
            going.core = new_core(config, joins, sizes, going.core.cut())
        going.effects += going.core.apply(one.mark)
    return [batch.content_hash for batch in batches_of(going.effects)], going.core.account


WIDE = SessionConfig(gap_ms=10, lateness_ms=0)


def shown(time: int, event_id: int, user: int = 7) -> Ev:
    return Ev(time, event_id, user, item=event_id, kind=SHOWN)


def said(time: int, event_id: int, of: int, user: int = 7) -> Ev:
    return Ev(time, event_id, user, label=1, kind=SAID, of=of)


def feed(core: PartitionCore, source: Input, events: list[Ev]) -> list[list[int]]:
    start = core.position[source]
    found = core.feed(columns(events, start), rejected=0, next_offset=start + len(events), source=source)
    return offsets_of(batches_of(found))


def test_a_sample_leaves_when_both_inputs_have_passed_its_window() -> None:
    core = new_core(WIDE, JoinConfig(window_ms=50), BatchConfig(samples=1))
    assert feed(core, INTERACTIONS, [shown(1000, 1), shown(2000, 2, user=8)]) == []
    assert feed(core, OUTCOMES, [said(1049, 50, of=1)]) == []
    assert feed(core, OUTCOMES, [said(1050, 51, of=1)]) == [[0]]
    assert counts_of(core)["joined"] == 1


def test_an_outcome_is_late_by_its_own_input_only() -> None:
    core = new_core(WIDE, JoinConfig(window_ms=50))
    feed(core, INTERACTIONS, [shown(1000, 1), shown(9000, 2)])
    feed(core, OUTCOMES, [said(1001, 50, of=1)])
    assert core.account.late == 0, "the interactions are far ahead of it"
    feed(core, OUTCOMES, [said(1000, 51, of=1)])
    assert core.account.late == 1
    assert (core.watermark_of(INTERACTIONS), core.watermark_of(OUTCOMES), core.watermark_ms) == (9000, 1001, 1001)


def test_ids_of_the_two_inputs_are_not_compared() -> None:
    core = new_core(WIDE, JoinConfig(window_ms=50))
    inputs = ([shown(1000, 1)], [said(1000, 1, of=1), said(1000, 1, of=1)])
    assert labels_of(batches_of(run(core, inputs, [], []))) == {0: [1.0]}
    assert core.account.duplicates == 1


def test_an_erased_user_s_outcomes_from_before_reach_no_history() -> None:
    core = new_core(WIDE, JoinConfig(window_ms=50), BatchConfig(samples=1))
    gone = Ev(0, 900, 7, kind=EventKind.TOMBSTONE)
    inputs = (
        [shown(1000, 1), shown(1100, 2), gone, shown(1200, 3)],
        [said(1001, 50, of=1), said(1100, 51, of=2), said(1110, 52, of=2), said(1300, 53, of=3)],
    )
    for plan in ([(INTERACTIONS, 9)], [(OUTCOMES, 9)], [(INTERACTIONS, 2), (OUTCOMES, 9)]):
        core = new_core(WIDE, JoinConfig(window_ms=50), BatchConfig(samples=1))
        batches = batches_of(run(core, inputs, [], plan))
        # The first had left when the interactions stood at the tombstone; the second and its likes are forgotten, but
        # not what is said of it ten milliseconds later.
        assert offsets_of(batches) == [[0], [3]]
        assert histories_of(batches)[3] == []
        assert core.account.erased == 1


def test_a_partition_that_holds_samples_is_not_given_a_second_input() -> None:
    core = PartitionCore(SCHEMA, WIDE, BatchConfig(), 0, JoinConfig())
    core.feed(columns([shown(1000, 1)]), rejected=0, next_offset=1)
    with pytest.raises(ConfigError, match=r"topics\.outcomes"):
        new_core(WIDE, JoinConfig(), BatchConfig(), core.cut())
    core.apply(ClockMark(partition=0, after_offset=1, kind=MarkKind.END))
    grown = new_core(WIDE, JoinConfig(), BatchConfig(), core.cut())
    assert grown.position == Position(1, 0)


def test_records_of_an_input_that_were_read_already_are_refused_by_its_name() -> None:
    core = new_core(WIDE, JoinConfig())
    feed(core, OUTCOMES, [said(1000, 1, of=1), said(1001, 2, of=1)])
    with pytest.raises(InvariantError, match="of the outcomes was read up to 2"):
        core.feed(columns([]), rejected=0, next_offset=1, source=OUTCOMES)


def test_a_user_whose_erasure_is_still_to_act_stays_in_memory_and_in_the_cut() -> None:
    outside = ProfilesConfig(store="redis", max_users_in_memory=1)
    core = PartitionCore(SCHEMA, WIDE, BatchConfig(), 0, JoinConfig(window_ms=5), outside, with_outcomes=True)
    first = columns([Ev(1000, 1, 7, item=5, label=1), Ev(1000, 2, 8, item=5, label=1)])
    core.load_profiles(core.unknown(first), [MISSING, MISSING])
    core.feed(first, rejected=0, next_offset=2)
    core.feed(columns([said(1500, 9, of=1)]), rejected=0, next_offset=1, source=OUTCOMES)
    gone = columns([Ev(0, 900, 7, kind=EventKind.TOMBSTONE)], 2)
    core.feed(columns([Ev(2000, 3, 8, item=5, label=1)], 2), rejected=0, next_offset=3)
    core.feed(dataclasses.replace(gone, offset=gone.offset + 1), rejected=0, next_offset=4)
    core.changed_profiles()
    core.evict()
    assert core.unknown(first).tolist() == []
