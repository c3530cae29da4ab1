"""In which order records of several partitions are written, and that it makes none of them late."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streams.routing.alignment import NO_TIME, Alignment

Lanes = dict[int, list[int]]
LANES = st.dictionaries(
    st.integers(0, 4), st.lists(st.one_of(st.integers(0, 30), st.just(NO_TIME)), max_size=25), min_size=1, max_size=4
)


Pieces = list[tuple[int, int]]
# All at once: drawing them one by one while they are fed takes more than twenty times as long.
PIECES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=20, max_size=40)
"""Whose turn it is, and how many of its records come; what is left over comes at the end, lane by lane."""


def order_of(lanes: Lanes, pieces: Pieces) -> list[tuple[int, int]]:
    """(partition, place) in the order of writing, fed in pieces of any sizes, in any order."""
    alignment, fed, taken = Alignment(lanes), dict.fromkeys(lanes, 0), dict.fromkeys(lanes, 0)
    found: list[tuple[int, int]] = []
    turns = sorted(lanes)
    for turn, size in [*pieces, *((turn, len(lanes[partition])) for turn, partition in enumerate(turns))]:
        partition = turns[turn % len(turns)]
        times, start = lanes[partition], fed[partition]
        stop = min(len(times), start + size)
        alignment.add(partition, np.array(times[start:stop], np.int64))
        fed[partition] = stop
        for p, each in lanes.items():
            if fed[p] == len(each):
                alignment.end(p)
        for p, count in alignment.release():
            found += [(p, taken[p] + i) for i in range(count)]
            taken[p] += count
    return found


def expected(lanes: Lanes) -> list[tuple[int, int]]:
    """By what each partition has reached, then partition, then place."""
    keyed = []
    for partition, times in lanes.items():
        reached = NO_TIME
        for place, time in enumerate(times):
            reached = max(reached, time)
            keyed.append((reached, partition, place))
    return [(partition, place) for _, partition, place in sorted(keyed)]


@given(LANES, PIECES)
def test_how_partitions_are_fetched_changes_nothing(lanes: Lanes, pieces: Pieces) -> None:
    assert order_of(lanes, pieces) == expected(lanes)


@given(LANES, PIECES)
def test_no_record_is_later_than_in_its_own_partition(lanes: Lanes, pieces: Pieces) -> None:
    def lateness(times: list[int]) -> int:
        reached, worst = NO_TIME, 0
        for time in times:
            reached = max(reached, time)
            worst = max(worst, reached - time if time != NO_TIME else 0)
        return worst

    written = [lanes[partition][place] for partition, place in order_of(lanes, pieces)]
    assert lateness(written) <= max(map(lateness, lanes.values()))


def test_what_is_ahead_waits_until_the_others_have_reached_as_much_or_ended() -> None:
    alignment = Alignment([0, 1])
    alignment.add(0, np.array([10, 20, 30]))
    assert alignment.release() == []
    alignment.add(1, np.array([15]))
    assert alignment.release() == [(0, 1), (1, 1)]
    alignment.end(1)
    assert alignment.release() == [(0, 2)]
    assert alignment.waiting(0) == 0


def test_a_partition_that_goes_on_after_its_end_is_waited_for_again() -> None:
    alignment = Alignment([0, 1])
    alignment.end(0)
    alignment.end(1)
    alignment.add(0, np.array([10]))
    alignment.end(0)
    alignment.add(1, np.array([5, 7]))
    assert alignment.release() == [(1, 2)]
    alignment.end(1)
    assert alignment.release() == [(0, 1)]
