"""When marks take effect, which are void, and what a cut has to remember of them."""

from __future__ import annotations

from sessionizer.marks import Marks, Seen, idle_mark, shed_mark
from sessionizer.progress import CutRef, Progress
from streams.clock_mark import ClockMark, MarkKind
from streams.inputs import Input, Position


def mark(after_offset: int, kind: MarkKind = MarkKind.END, replaces: int | None = None) -> ClockMark:
    return ClockMark(partition=0, after_offset=after_offset, kind=kind, replaces=replaces)


def known(next_offset: int, clock_offset: int, cut_offset: int, applied: tuple[int, ...] = ()) -> Progress:
    cut = CutRef(
        number=1,
        first_offset=0,
        chunks=1,
        size_bytes=0,
        crc32c=0,
        next_offset=cut_offset,
        clock_offset=0,
        applied=applied,
    )
    return Progress(next_offset=next_offset, clock_offset=clock_offset, cut=cut)


def test_marks_wait_for_their_position_and_act_once_in_the_order_of_the_clock_topic() -> None:
    marks = Marks(0, Progress(), Position())
    marks.add(0, mark(10))
    marks.add(1, mark(10, MarkKind.IDLE))
    marks.add(2, mark(4, MarkKind.IDLE))
    assert marks.due() is None
    assert marks.next_stop(50) == 4
    marks.move(4)
    assert marks.due() == mark(4, MarkKind.IDLE)
    assert marks.due() is None
    assert marks.next_stop(50) == 10
    marks.move(10)
    assert marks.due() == mark(10)
    assert marks.due() is None, "an idle mark behind an end mark is void"
    assert marks.applied == (0, 1)
    assert marks.oldest_clock_offset == 3


def test_a_shed_mark_behind_an_end_mark_acts_since_the_trainer_is_as_far_behind_in_the_next_epoch() -> None:
    marks = Marks(0, Progress(), Position(10))
    shed = shed_mark(marks, 8192)
    assert shed == ClockMark(partition=0, after_offset=10, kind=MarkKind.SHED, share=8192)
    marks.add(0, mark(10))
    marks.add(1, shed)
    assert [marks.due(), marks.due(), marks.due()] == [mark(10), shed, None]


def test_a_request_whose_position_is_passed_is_settled_by_a_mark_that_voids_it() -> None:
    marks = Marks(0, Progress(), Position())
    marks.move(20)
    marks.add(0, mark(15))
    assert marks.due() is None
    assert marks.oldest_clock_offset == 0
    (settled,) = marks.settle()
    assert settled == mark(20, replaces=0)
    marks.add(1, settled)
    assert marks.settle() == []
    assert marks.due() == settled
    assert marks.ended_at == Position(20)


def test_a_restored_partition_repeats_known_marks_and_only_those() -> None:
    # Cut at 10, where mark 0 has acted; progress up to 30, when the clock had been read up to 3.
    marks = Marks(0, known(next_offset=30, clock_offset=3, cut_offset=10, applied=(0,)), Position(10))
    marks.add(0, mark(10))
    marks.add(1, mark(5))
    marks.add(2, mark(25))
    marks.add(3, mark(27))
    assert marks.due() is None, "mark 0 is in the cut, mark 1 acted before it"
    assert marks.next_stop(100) == 25
    marks.move(25)
    assert marks.due() == mark(25)
    assert marks.settle() == [], "nothing is settled while what was made is made again"
    assert marks.next_stop(100) == 30, "where the replay ends"
    marks.move(30)
    assert marks.settle() == [mark(30, replaces=3)], "nobody had read mark 3 when its position was passed"


def test_a_future_record_is_known_by_its_mark_until_it_is_passed() -> None:
    marks = Marks(0, Progress(), Position())
    marks.add(0, mark(7, MarkKind.FUTURE))
    assert set(marks.future()) == {7}
    assert marks.oldest_clock_offset == 0
    marks.move(8)
    assert marks.future() == {}
    assert marks.oldest_clock_offset == 1


def test_what_is_no_mark_is_passed_over_and_nothing_is_taken_twice() -> None:
    marks = Marks(0, Progress(), Position())
    marks.add(0, None)
    marks.add(1, mark(0))
    marks.add(1, mark(0))
    assert marks.due() == mark(0)
    assert marks.due() is None
    assert marks.next_clock_offset == 2


def test_idle_time_follows_the_wall_clock_from_the_last_event_and_never_overtakes_it() -> None:
    marks = Marks(0, Progress(), Position())

    def value(now_ms: int, max_time_ms: int, watermark_ms: int) -> int | None:
        seen = [Seen(max_time_ms, append_ms=1_000)]
        found = idle_mark(marks, seen, now_ms=now_ms, watermark_ms=watermark_ms, lateness_ms=100)
        return found.value_ms if found else None

    assert value(now_ms=1_500, max_time_ms=200, watermark_ms=100) == 200 + 500 - 100
    assert value(now_ms=1_500, max_time_ms=1_400, watermark_ms=100) == 1_500 - 100
    assert value(now_ms=1_500, max_time_ms=200, watermark_ms=600) is None


def of_two(interactions: int, outcomes: int, kind: MarkKind = MarkKind.END, replaces: int | None = None) -> ClockMark:
    return ClockMark.at(Position(interactions, outcomes), kind, partition=0, two=True, replaces=replaces)


def two_inputs(interactions: int = 0, outcomes: int = 0) -> Marks:
    return Marks(0, Progress(), Position(interactions, outcomes), two=True)


def test_a_mark_of_two_inputs_acts_when_both_are_there_and_holds_up_the_one_that_is_first() -> None:
    marks = two_inputs()
    marks.add(0, of_two(10, 5))
    assert marks.next_stop(50) == 10
    marks.move(10)
    assert marks.due() is None
    assert marks.next_stop(50) == 10, "it waits for the outcomes"
    assert marks.is_blocked(Input.INTERACTIONS)
    assert not marks.is_blocked(Input.OUTCOMES)
    assert marks.next_stop(50, Input.OUTCOMES) == 5
    marks.move(5, Input.OUTCOMES)
    assert marks.due() == of_two(10, 5)
    assert not marks.is_blocked(Input.INTERACTIONS)
    assert marks.ended_at == Position(10, 5)


def test_a_request_that_one_input_has_passed_is_settled_where_the_other_one_gets_there() -> None:
    marks = two_inputs(interactions=12, outcomes=3)
    marks.add(0, of_two(10, 5))
    (settled,) = marks.settle()
    assert settled == of_two(12, 5, replaces=0)
    marks.add(1, settled)
    assert marks.settle() == []
    assert marks.is_blocked(Input.INTERACTIONS)
    marks.move(5, Input.OUTCOMES)
    assert marks.due() == settled


def test_of_two_requests_that_each_want_to_be_first_the_later_one_is_settled_behind_the_other() -> None:
    marks = two_inputs()
    marks.add(0, of_two(10, 5))
    marks.add(1, of_two(8, 7))
    (settled,) = marks.settle()
    assert settled == of_two(10, 7, replaces=1)


def test_a_request_that_does_not_say_where_the_outcomes_end_is_settled() -> None:
    marks = two_inputs(interactions=4, outcomes=9)
    marks.add(0, mark(30))
    assert marks.settle() == [of_two(30, 9, replaces=0)]


def test_a_replay_of_two_inputs_stops_at_what_was_known_of_each() -> None:
    cut = CutRef(
        number=1, first_offset=0, chunks=1, size_bytes=0, crc32c=0, next_offset=10, clock_offset=0, next_outcome=4
    )
    known = Progress(next_offset=30, next_outcome=6, clock_offset=1, cut=cut, version=2)
    marks = Marks(0, known, cut.position, two=True)
    assert marks.next_stop(100) == 30
    assert marks.next_stop(100, Input.OUTCOMES) == 6
    marks.move(30)
    assert marks.is_blocked(Input.INTERACTIONS), "the outcomes are still being made again"
    marks.move(6, Input.OUTCOMES)
    assert not marks.replaying
    assert marks.next_stop(100) == 100


def test_a_future_record_is_known_by_its_input() -> None:
    marks = two_inputs()
    marks.add(0, ClockMark.at(Position(3, 7), MarkKind.FUTURE, partition=0, two=True, about=Input.OUTCOMES, value_ms=9))
    assert (marks.future(), marks.future(Input.OUTCOMES)) == ({}, {7: 9})
    marks.move(8)
    assert marks.future(Input.OUTCOMES) == {7: 9}
    marks.move(8, Input.OUTCOMES)
    assert marks.future(Input.OUTCOMES) == {}


def test_outcomes_that_stay_away_are_as_far_as_the_interactions() -> None:
    marks = two_inputs(interactions=5)
    seen = [Seen(max_time_ms=1_000, append_ms=50_000), Seen(max_time_ms=-(2**62), append_ms=10_000)]
    found = idle_mark(marks, seen, now_ms=60_000, watermark_ms=-(2**62), lateness_ms=100, about=Input.OUTCOMES)
    assert found is not None
    assert (found.value_ms, found.input, found.after) == (1_000 + 10_000 - 100, Input.OUTCOMES, Position(5, 0))


def test_silence_behind_offsets_that_nobody_reads_still_belongs_to_the_epoch_that_ended() -> None:
    marks = Marks(0, Progress(), Position())
    marks.add(0, mark(5))
    marks.move(5)
    assert marks.due() == mark(5)
    marks.move(8, by_events=False)
    marks.add(1, mark(8, MarkKind.IDLE))
    assert marks.due() is None
    assert marks.ended_at == Position(8)
    marks.move(9)
    marks.add(2, mark(9, MarkKind.IDLE))
    assert marks.due() == mark(9, MarkKind.IDLE)


def test_requests_that_are_settled_together_do_not_wait_for_each_other() -> None:
    marks = two_inputs(interactions=15, outcomes=45)
    # Asked for at the same time, by one who read the ends of the topics before and after the other one did.
    marks.add(0, of_two(10, 50))
    marks.add(1, of_two(20, 40))
    first, second = marks.settle()
    assert first == of_two(15, 50, replaces=0)
    assert second == of_two(20, 50, replaces=1)


def test_a_request_that_crosses_a_settlement_on_its_way_is_settled_behind_it() -> None:
    marks = two_inputs(interactions=15, outcomes=45)
    marks.add(0, of_two(10, 50))
    (settled,) = marks.settle()
    marks.add(1, of_two(20, 46))
    marks.add(2, settled)
    assert marks.settle() == [of_two(20, 50, replaces=1)]
    assert not marks.is_blocked(Input.OUTCOMES), "they lead the interactions to the first of the two"
