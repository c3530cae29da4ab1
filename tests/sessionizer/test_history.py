"""Histories where the properties rarely look: users who only click, and times that begin anew."""

from __future__ import annotations

from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.core import PartitionCore
from streams.clock_mark import ClockMark, MarkKind
from streams.events.schema import EventKind
from tests.sessionizer.events import LAST, SCHEMA, batches_of, columns, histories_of
from tests.sessionizer.oracle import Ev

CONFIG = SessionConfig(gap_ms=10, lateness_ms=0)


def clicks(user: int, times: range, first_id: int = 0) -> list[Ev]:
    """Outcomes that name an item and no impression that anybody has seen."""
    return [Ev(at, first_id + i, user, item=100 + i, label=1, kind=EventKind.OUTCOME) for i, at in enumerate(times)]


def new_core() -> PartitionCore:
    return PartitionCore(SCHEMA, CONFIG, BatchConfig(samples=4), 0, JoinConfig(window_ms=20))


def test_a_user_who_only_clicks_keeps_no_more_entries_than_the_history_is_long() -> None:
    core = new_core()
    core.feed(columns(clicks(7, range(1000, 6000))), rejected=0, next_offset=5000)
    lore = core._histories
    assert len(lore.entries) - int(lore.num_free[0]) <= LAST + 1


def test_a_sample_of_a_new_epoch_does_not_see_what_was_clicked_later() -> None:
    core = new_core()
    core.feed(columns([Ev(1000, 1, 7), *clicks(7, range(1100, 1102), 2)]), rejected=0, next_offset=3)
    core.apply(ClockMark(partition=0, after_offset=3, kind=MarkKind.END))
    effects = core.feed(columns([Ev(1050, 9, 7)], 3), rejected=0, next_offset=4)
    effects += core.apply(ClockMark(partition=0, after_offset=4, kind=MarkKind.END))
    assert histories_of(batches_of(effects)) == {3: []}


def test_a_sample_of_a_new_epoch_that_is_not_earlier_sees_what_was_there() -> None:
    core = new_core()
    core.feed(columns([Ev(1000, 1, 7, 100, 1), Ev(1000, 2, 7, 101, 1), Ev(1500, 3, 7)]), rejected=0, next_offset=3)
    core.apply(ClockMark(partition=0, after_offset=3, kind=MarkKind.END))
    effects = core.feed(columns([Ev(1001, 4, 7), Ev(1002, 5, 7)], 3), rejected=0, next_offset=5)
    effects += core.apply(ClockMark(partition=0, after_offset=5, kind=MarkKind.END))
    assert histories_of(batches_of(effects)) == {3: [100, 101], 4: [100, 101]}
