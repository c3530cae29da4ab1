"""Shedding: which sessions a share takes, when it decides, and what must not notice; held against the oracles."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer import cut
from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import Effect
from sessionizer.sampling import is_kept
from sessionizer.shedding import is_shed
from streams.clock_mark import WHOLE, ClockMark, MarkKind
from streams.errors import ConfigError
from streams.events.ids import mixed
from streams.events.schema import EventKind
from streams.minibatch import MiniBatch
from tests.sessionizer import test_join, test_two_inputs
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
    stages_of,
    streams,
)
from tests.sessionizer.join_oracle import joined
from tests.sessionizer.oracle import Ev, brute_force

HALF = WHOLE // 2
SHOWN, SAID, RATED = EventKind.IMPRESSION, EventKind.OUTCOME, EventKind.LABELLED

polls = st.lists(st.integers(1, 59), max_size=8)
sheds_of_some = st.lists(
    st.tuples(st.integers(0, 45), st.sampled_from([0, WHOLE // 8, HALF, HALF, 7 * WHOLE // 8, WHOLE])),
    min_size=1,
    max_size=5,
).map(lambda sheds: sorted(sheds, key=lambda shed: shed[0]))


@st.composite
def in_time(draw: st.DrawFn) -> list[Ev]:
    """Impressions and what was liked of them, in order: most of it leaves long before the end, and is liked later."""
    shown = draw(st.lists(st.tuples(st.integers(1000, 1120), st.integers(1, 4)), min_size=15, max_size=30))
    liked = draw(st.lists(st.tuples(st.integers(0, len(shown) - 1), st.integers(0, 40)), min_size=10, max_size=25))
    events = [Ev(time, number, user, item=number, kind=SHOWN) for number, (time, user) in enumerate(shown)]
    events += [
        Ev(shown[of][0] + after_ms, 100 + number, shown[of][1], label=1, kind=SAID, of=of)
        for number, (of, after_ms) in enumerate(liked)
    ]
    rated = draw(st.lists(st.tuples(st.integers(1000, 1120), st.integers(1, 4), st.integers(0, 1)), max_size=8))
    events += [Ev(time, 200 + n, user, item=n, label=label, kind=RATED) for n, (time, user, label) in enumerate(rated)]
    return sorted(events, key=lambda event: event.time)


def shed_mark(at: int, share: int) -> ClockMark:
    return ClockMark(partition=0, after_offset=at, kind=MarkKind.SHED, share=share)


def within(events: Sequence[Ev], sheds: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """None of them behind the end."""
    return [(min(at, len(events)), share) for at, share in sheds]


class Run:
    """A core that is fed events, shed marks at their places and an end mark; it may be made anew after each poll."""

    def __init__(
        self, config: SessionConfig, joins: JoinConfig | None = None, batch_samples: int = 4, *, remade: bool = False
    ) -> None:
        self._made = SCHEMA, config, BatchConfig(samples=batch_samples)
        self._joins = joins or JoinConfig()
        self._remade = remade
        self.core = PartitionCore(*self._made, 0, self._joins)

    def __call__(self, events: Sequence[Ev], sheds: Sequence[tuple[int, int]], cuts: Sequence[int]) -> list[MiniBatch]:
        effects: list[Effect] = []
        sheds = within(events, sheds)
        bounds = sorted({0, *(p for p in cuts if p < len(events)), *(at for at, _ in sheds), len(events)})
        for start, end in pairwise([0, *bounds]):
            effects += self.core.feed(columns(events[start:end], start), rejected=0, next_offset=end)
            for _, share in [shed for shed in sheds if shed[0] == end]:
                effects += self.core.apply(shed_mark(end, share))
            if self._remade:
                self.core = PartitionCore.restore(*self._made, self.core.cut(), self._joins)
        end_mark = ClockMark(partition=0, after_offset=self.core.next_offset, kind=MarkKind.END)
        return batches_of(effects + self.core.apply(end_mark))


@given(streams(), configs, st.integers(1, 7), sheds_of_some, polls)
def test_what_is_shed_and_what_is_left_are_those_of_the_brute_force_sessionizer(
    events: list[Ev], config: SessionConfig, batch_samples: int, sheds: list[tuple[int, int]], cuts: list[int]
) -> None:
    truth = brute_force(events, config, batch_samples, LAST, within(events, sheds))
    run = Run(config, batch_samples=batch_samples)
    batches = run(events, sheds, cuts)
    assert offsets_of(batches) == truth.batches
    assert histories_of(batches) == {o: truth.history[o] for batch in truth.batches for o in batch}
    account = run.core.account
    assert account.shed == len(truth.shed)
    assert account.emitted + account.shed == account.labelled
    assert (account.sessions, account.sessions_cut) == (len(truth.parts), sum(part.cut for part in truth.parts))


@given(in_time(), test_two_inputs.configs, test_join.all_joins, st.integers(1, 7), sheds_of_some, polls)
def test_labels_corrections_and_histories_of_what_is_left_are_those_of_the_oracle(
    events: list[Ev], config: SessionConfig, joins: JoinConfig, batch_samples: int, sheds: list[tuple[int, int]],
    cuts: list[int],
) -> None:  # fmt: skip
    config = dataclasses.replace(config, max_held_samples=1000)
    truth = joined(events, config, joins, (batch_samples, LAST, None), within(events, sheds))
    run = Run(config, joins, batch_samples)
    batches = run(events, sheds, cuts)
    assert labels_of(batches) == truth.labels
    assert stages_of(batches) == truth.stages
    assert corrections_of(batches) == sorted((each.sample, each.turned) for each in truth.corrections)
    assert offsets_of(batches) == truth.batches
    assert histories_of(batches) == truth.history
    core = run.core
    assert test_join.counts_of(core) == truth.counts
    assert core.account.shed == len(truth.shed)
    assert (core.held, core.num_remembered) == (0, 0)
    assert core.account.corrected == len(truth.corrections)


@given(in_time(), test_two_inputs.configs, test_join.all_joins, sheds_of_some, polls)
def test_neither_polls_nor_cuts_change_what_is_shed_even_when_a_cap_sends_samples_off(
    events: list[Ev], config: SessionConfig, joins: JoinConfig, sheds: list[tuple[int, int]], cuts: list[int]
) -> None:
    runs = [Run(config, joins), Run(config, joins), Run(config, joins, remade=True)]
    found = [run(events, sheds, where) for run, where in zip(runs, ([], cuts, cuts), strict=True)]
    whole, split, remade = ([batch.content_hash for batch in batches] for batches in found)
    assert whole == split == remade
    assert runs[0].core.account == runs[1].core.account == runs[2].core.account


WIDE = SessionConfig(gap_ms=10, lateness_ms=0)
IDS = mixed(np.arange(200_000, dtype=np.uint64))


def test_a_share_takes_as_much_as_it_says_and_a_smaller_one_takes_a_part_of_it() -> None:
    taken = [is_shed(IDS, share) for share in range(0, WHOLE + 1, WHOLE // 8)]
    assert [float(each.mean()) for each in taken] == pytest.approx([k / 8 for k in range(9)], abs=0.005)
    for less, more in pairwise(taken):
        assert not np.any(less & ~more)


def test_the_choice_has_nothing_to_do_with_the_sampling_of_negatives() -> None:
    joins = JoinConfig(negative_rate=0.5, negative_unit="session")
    kept = is_kept(joins, np.zeros((len(IDS), 1), np.float32), IDS, IDS)
    assert float(is_shed(IDS[kept], HALF).mean()) == pytest.approx(0.5, abs=0.01)


def test_a_session_is_judged_by_the_share_of_when_it_leaves_and_not_of_when_it_began() -> None:
    core = PartitionCore(SCHEMA, WIDE, BatchConfig(samples=1), 0)
    core.apply(shed_mark(0, WHOLE))
    core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=1)
    core.apply(shed_mark(1, 0))
    effects = core.feed(columns([Ev(1010, 2, 8)], 1), rejected=0, next_offset=2)
    assert offsets_of(batches_of(effects)) == [[0]]
    core.apply(shed_mark(2, WHOLE))
    assert batches_of(core.apply(ClockMark(partition=0, after_offset=2, kind=MarkKind.END))) == []
    assert (core.account.emitted, core.account.shed) == (1, 1)


def test_what_waits_for_its_batch_to_fill_is_not_shed_any_more() -> None:
    core = PartitionCore(SCHEMA, WIDE, BatchConfig(samples=4), 0)
    core.feed(columns([Ev(1000, 1, 7), Ev(1010, 2, 8)]), rejected=0, next_offset=2)
    core.apply(shed_mark(2, WHOLE))
    last = core.apply(ClockMark(partition=0, after_offset=2, kind=MarkKind.END))
    assert offsets_of(batches_of(last)) == [[0]]


def test_what_was_liked_in_a_shed_session_is_in_the_history_of_the_next_one() -> None:
    core = PartitionCore(SCHEMA, WIDE, BatchConfig(samples=1), 0)
    core.apply(shed_mark(0, WHOLE))
    core.feed(columns([Ev(1000, 1, 7, item=5, label=1), Ev(1020, 2, 7, item=6)]), rejected=0, next_offset=2)
    assert core.account.shed == 1
    core.apply(shed_mark(2, 0))
    last = core.apply(ClockMark(partition=0, after_offset=2, kind=MarkKind.END))
    assert histories_of(batches_of(last)) == {1: [5]}


def test_a_sample_that_was_emitted_is_corrected_though_all_is_shed_by_then_and_a_shed_one_never_is() -> None:
    joins = JoinConfig(window_ms=500, policy="correct")
    events = [Ev(1000, 1, 7, kind=SHOWN), Ev(1020, 2, 8, kind=SHOWN), Ev(1040, 3, 9, kind=SHOWN)]
    likes = [Ev(1100 + of, 10 + of, 6 + of, label=1, kind=SAID, of=of) for of in (1, 2, 3)]
    run = Run(WIDE, joins, 1)
    batches = run([*events, *likes], [(2, WHOLE), (6, 0)], [])
    assert labels_of(batches) == {0: [0.0]}
    assert corrections_of(batches) == [(0, (0,))]
    assert (run.core.account.shed, run.core.account.corrected) == (2, 1)


def test_a_sample_that_is_both_shed_and_a_negative_left_out_counts_as_shed() -> None:
    core = PartitionCore(SCHEMA, WIDE, BatchConfig(samples=1), 0, JoinConfig(negative_rate=1e-9))
    core.apply(shed_mark(0, WHOLE))
    core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=1)
    core.apply(ClockMark(partition=0, after_offset=1, kind=MarkKind.END))
    assert (core.account.shed, core.account.sampled_out) == (1, 0)


def test_a_share_lasts_beyond_the_end_of_an_epoch() -> None:
    core = PartitionCore(SCHEMA, WIDE, BatchConfig(samples=1), 0)
    core.apply(shed_mark(0, WHOLE))
    core.apply(ClockMark(partition=0, after_offset=0, kind=MarkKind.END))
    core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=1)
    core.apply(ClockMark(partition=0, after_offset=1, kind=MarkKind.END))
    assert core.account.shed == 1


def test_a_cut_of_before_anything_could_be_shed_is_gone_on_from_with_nothing_shed() -> None:
    core = PartitionCore(SCHEMA, WIDE, BatchConfig(samples=1), 0)
    core.feed(columns([Ev(1000, 1, 7)]), rejected=0, next_offset=1)
    header, arrays = cut.decode(core.cut())
    assert (header["version"], header.pop("shed_share"), header["account"].pop("shed")) == (9, 0, 0)
    old = cut.encode(header | {"version": 7}, arrays)
    restored = PartitionCore.restore(SCHEMA, WIDE, BatchConfig(samples=1), old)
    last = restored.apply(ClockMark(partition=0, after_offset=1, kind=MarkKind.END))
    assert offsets_of(batches_of(last)) == [[0]]
    assert restored.account.shed == 0
    for version in (6, 11):
        with pytest.raises(ConfigError, match=f"version {version}, this recd reads 7 to 10"):
            PartitionCore.restore(
                SCHEMA, WIDE, BatchConfig(samples=1), cut.encode(header | {"version": version}, arrays)
            )
