"""Policy `correct`, each rule by an example; the rules together are held against the oracle in `test_join`."""

from __future__ import annotations

import dataclasses

import pytest

from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.core import PartitionCore
from streams.clock_mark import ClockMark, MarkKind
from streams.events.schema import CombineRule, EventKind, EventSchema, Label
from streams.minibatch import MiniBatch
from streams.stage import Stage
from tests.sessionizer.events import SCHEMA, batches_of, columns, corrections_of, labels_of, run, stages_of
from tests.sessionizer.oracle import Ev

SHOWN, SAID, GONE = EventKind.IMPRESSION, EventKind.OUTCOME, EventKind.TOMBSTONE
WIDE = SessionConfig(gap_ms=10, lateness_ms=0)
CORRECT = JoinConfig(window_ms=500, policy="correct")


def core_of(
    config: SessionConfig = WIDE, joins: JoinConfig = CORRECT, schema: EventSchema = SCHEMA, samples: int = 1
) -> PartitionCore:
    return PartitionCore(schema, config, BatchConfig(samples=samples), 0, joins)


def shown(time: int, event_id: int, user: int = 7) -> Ev:
    return Ev(time, event_id, user, item=event_id, kind=SHOWN)


def said(time: int, event_id: int, of: int, label: int = 1, user: int = 7) -> Ev:
    return Ev(time, event_id, user, label=label, kind=SAID, of=of)


class Feed:
    """A core that is fed poll by poll."""

    def __init__(self, core: PartitionCore) -> None:
        self.core = core
        self.num_fed = 0

    def __call__(self, *events: Ev) -> list[MiniBatch]:
        first, self.num_fed = self.num_fed, self.num_fed + len(events)
        return batches_of(self.core.feed(columns(events, first), rejected=0, next_offset=self.num_fed))

    def mark(self, kind: MarkKind, value_ms: int = -1) -> list[MiniBatch]:
        mark = ClockMark(partition=0, after_offset=self.num_fed, kind=kind, value_ms=value_ms)
        return batches_of(self.core.apply(mark))


def told(batches: list[MiniBatch]) -> list[tuple[int, Stage, float]]:
    """Offset, stage and first label of every sample, in order."""
    return [
        (int(offset), Stage(stage), float(label))
        for batch in batches
        for offset, stage, label in zip(batch.lineage.offset, batch.stages, batch.labels[:, 0], strict=True)
    ]


def test_a_sample_leaves_with_its_session_and_a_correction_follows_when_the_watermark_passes_its_outcome() -> None:
    feed = Feed(core_of())
    assert told(feed(shown(1000, 1))) == []
    assert told(feed.mark(MarkKind.IDLE, 1010)) == [(0, Stage.PROVISIONAL, 0.0)]
    assert (feed.core.held, feed.core.num_remembered) == (0, 1)
    assert told(feed(said(1200, 2, of=1))) == [], "arrival decides nothing"
    assert told(feed.mark(MarkKind.IDLE, 1200)) == []
    assert told(feed.mark(MarkKind.IDLE, 1201)) == [(0, Stage.CORRECTION, 1.0)]
    assert told(feed(said(1300, 3, of=1))) == []
    assert told(feed.mark(MarkKind.IDLE, 1500)) == [], "each label turns once"
    assert feed.core.num_remembered == 0
    assert told(feed.mark(MarkKind.END)) == []
    account = feed.core.account
    assert (account.emitted, account.corrected, account.joined) == (1, 1, 2)


def test_an_outcome_before_the_session_is_over_is_known_when_the_sample_leaves() -> None:
    batches = batches_of(run(core_of(), [shown(1000, 1), said(1005, 2, of=1)]))
    assert (labels_of(batches), stages_of(batches)) == ({0: [1.0]}, {0: Stage.PROVISIONAL})
    assert corrections_of(batches) == []


def test_what_leaves_after_its_window_is_settled() -> None:
    joins = JoinConfig(window_ms=10, policy="correct")
    assert stages_of(batches_of(run(core_of(joins=joins), [shown(1000, 1)]))) == {0: Stage.SETTLED}


def test_corrections_of_one_session_that_are_ready_at_once_stay_together() -> None:
    core = core_of(samples=3)
    events = [shown(1000, 1), shown(1001, 2), shown(1001, 3, user=8), said(1100, 4, of=1), said(1100, 5, of=2)]
    batches = batches_of(run(core, [*events, said(1101, 6, of=3, user=8)]))
    assert [[offset for offset, stage, _ in told([batch])] for batch in batches] == [[0, 1, 2], [0, 1, 2]]
    assert [batch.num_sessions for batch in batches] == [2, 2]
    assert core.account.sessions == 2, "corrections are no sessions"


@pytest.mark.parametrize(
    ("combine", "threshold", "outcomes", "turned"),
    [
        ("any", 1.0, [(1100, 1), (1101, 0), (1102, 1)], 1),
        ("last", 1.0, [(1100, 1), (1101, 0), (1102, 1)], 1),
        ("last", 1.0, [(1100, 0), (1101, 0)], 0),
        ("max", 2.0, [(1100, 1), (1101, 2), (1102, 3)], 1),
        ("max", 2.0, [(1100, 1), (1101, 1)], 0),
        ("sum", 3.0, [(1100, 1), (1101, 1), (1102, 1), (1103, 5)], 1),
    ],
)
def test_a_label_turns_once_by_its_rule(
    combine: CombineRule, threshold: float, outcomes: list[tuple[int, int]], turned: int
) -> None:
    liked = Label(name="liked", field="liked", rule="ge", threshold=threshold, combine=combine)
    schema = dataclasses.replace(SCHEMA, labels=(liked,), histories=(), groups=())
    events = [shown(1000, 1), *(said(time, 2 + i, of=1, label=label) for i, (time, label) in enumerate(outcomes))]
    batches = batches_of(run(core_of(schema=schema), events, [], schema))
    assert labels_of(batches) == {0: [0.0]}
    assert corrections_of(batches) == [(0, (0,))] * turned


def test_each_label_has_a_correction_of_its_own_that_says_nothing_of_the_other() -> None:
    watched = Label(name="watched", field="seconds", rule="ge", threshold=4, combine="sum")
    schema = dataclasses.replace(SCHEMA, labels=(*SCHEMA.labels, watched))
    events = [
        shown(1000, 1),
        said(1100, 2, of=1)._replace(seconds=2),
        said(1101, 3, of=1, label=-1)._replace(seconds=2),
    ]
    batches = batches_of(run(core_of(schema=schema), events, [], schema))
    assert corrections_of(batches) == [(0, (0,)), (0, (1,))]


def test_a_cap_forgets_what_was_shown_first_before_it_cuts_a_session() -> None:
    config = SessionConfig(gap_ms=10, lateness_ms=0, max_held_samples=2, max_samples=2)
    core = core_of(config)
    events = [shown(1000, 1), shown(1020, 2, user=8), shown(1040, 3, user=9)]
    batches = batches_of(run(core, [*events, said(1050, 4, of=1), said(1051, 5, of=2, user=8)]))
    assert corrections_of(batches) == [(1, (0,))]
    account = core.account
    assert (account.forgotten, account.missed, account.joined, account.sessions_cut) == (1, 1, 1, 0)


def test_an_erased_user_is_corrected_no_more() -> None:
    feed = Feed(core_of())
    feed(shown(1000, 1), shown(1050, 2, user=8))
    assert feed.core.num_remembered == 1
    assert told(feed(Ev(1050, 3, 7, kind=GONE), said(1060, 4, of=1))) == [(1, Stage.PROVISIONAL, 0.0)]
    assert told(feed.mark(MarkKind.END)) == []
    assert (feed.core.account.erased, feed.core.account.corrected) == (0, 0)


def test_a_correction_that_waits_for_its_batch_is_erased_too_and_counts_for_no_sample() -> None:
    feed = Feed(core_of(samples=4))
    feed(shown(1000, 1))
    assert told(feed.mark(MarkKind.IDLE, 1020)) == [(0, Stage.PROVISIONAL, 0.0)], "silence seals what is there"
    feed(said(1100, 2, of=1), shown(1200, 3, user=8))
    feed(Ev(1200, 4, 7, kind=GONE))
    assert told(feed.mark(MarkKind.END)) == [(2, Stage.PROVISIONAL, 0.0)]
    assert feed.core.account.erased == 0


def test_a_negative_that_was_sampled_out_is_corrected_nevertheless() -> None:
    joins = JoinConfig(window_ms=500, policy="correct", negative_rate=1e-9)
    core = core_of(joins=joins)
    (batch,) = batches_of(run(core, [shown(1000, 1), said(1100, 2, of=1)]))
    assert told([batch]) == [(0, Stage.CORRECTION, 1.0)]
    assert batch.negative_rate == 1e-9
    assert (core.account.sampled_out, core.account.corrected, core.account.emitted) == (1, 1, 0)


def test_ripe_parts_of_open_sessions_leave_as_provisional_and_are_corrected() -> None:
    parts = BatchConfig(samples=4, fresh_ms=1, fresh="parts")
    feed = Feed(PartitionCore(SCHEMA, WIDE, parts, 0, CORRECT))
    feed(shown(1000, 1), shown(1005, 2))
    assert told(feed.mark(MarkKind.FRESH)) == [(0, Stage.PROVISIONAL, 0.0)]
    feed(said(1006, 3, of=1))
    assert told(feed.mark(MarkKind.END)) == [(0, Stage.CORRECTION, 1.0), (1, Stage.PROVISIONAL, 0.0)]


@pytest.mark.parametrize("policy", ["wait", "correct"])
def test_an_outcome_of_the_moment_in_which_a_cap_cuts_is_not_lost(policy: str) -> None:
    joins = JoinConfig(window_ms=9, policy=policy)  # type: ignore[arg-type]
    config = SessionConfig(gap_ms=10, lateness_ms=0, max_samples=1)
    batches = batches_of(run(core_of(config, joins), [shown(1000, 1), shown(1008, 2), said(1008, 3, of=1)]))
    final = dict(labels_of(batches))
    final |= {offset: [1.0] for offset, _ in corrections_of(batches)}
    assert final == {0: [1.0], 1: [0.0]}
