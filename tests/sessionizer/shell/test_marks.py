"""When marks take effect, which are void, and what a cut has to remember of them."""

from __future__ import annotations

from sessionizer.marks import Marks, idle_mark
from sessionizer.progress import CutRef, Progress
from streams.clock_mark import ClockMark, MarkKind


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
    marks = Marks(0, Progress(), 0)
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


def test_a_request_whose_position_is_passed_is_settled_by_a_mark_that_voids_it() -> None:
    marks = Marks(0, Progress(), 0)
    marks.move(20)
    marks.add(0, mark(15))
    assert marks.due() is None
    assert marks.oldest_clock_offset == 0
    (settled,) = marks.settle()
    assert settled == mark(20, replaces=0)
    marks.add(1, settled)
    assert marks.settle() == []
    assert marks.due() == settled
    assert marks.ended_at == 20


def test_a_restored_partition_repeats_known_marks_and_only_those() -> None:
    # Cut at 10, where mark 0 has acted; progress up to 30, when the clock had been read up to 3.
    marks = Marks(0, known(next_offset=30, clock_offset=3, cut_offset=10, applied=(0,)), 10)
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
    marks = Marks(0, Progress(), 0)
    marks.add(0, mark(7, MarkKind.FUTURE))
    assert set(marks.future) == {7}
    assert marks.oldest_clock_offset == 0
    marks.move(8)
    assert marks.future == {}
    assert marks.oldest_clock_offset == 1


def test_what_is_no_mark_is_passed_over_and_nothing_is_taken_twice() -> None:
    marks = Marks(0, Progress(), 0)
    marks.add(0, None)
    marks.add(1, mark(0))
    marks.add(1, mark(0))
    assert marks.due() == mark(0)
    assert marks.due() is None
    assert marks.next_clock_offset == 2


def test_idle_time_follows_the_wall_clock_from_the_last_event_and_never_overtakes_it() -> None:
    marks = Marks(0, Progress(), 0)

    def value(now_ms: int, max_time_ms: int, watermark_ms: int) -> int | None:
        found = idle_mark(
            marks,
            now_ms=now_ms,
            last_append_ms=1_000,
            max_time_ms=max_time_ms,
            watermark_ms=watermark_ms,
            lateness_ms=100,
        )
        return found.value_ms if found else None

    assert value(now_ms=1_500, max_time_ms=200, watermark_ms=100) == 200 + 500 - 100
    assert value(now_ms=1_500, max_time_ms=1_400, watermark_ms=100) == 1_500 - 100
    assert value(now_ms=1_500, max_time_ms=200, watermark_ms=600) is None
