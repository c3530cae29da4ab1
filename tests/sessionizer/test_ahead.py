"""The bytes that wait for the trainer, against a list of everything that was ever written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessionizer.ahead import Ahead

SIZES = st.lists(st.integers(1, 100), max_size=30)
PLACES = st.lists(st.integers(0, 80), max_size=8)


def test_what_is_sent_counts_before_it_has_arrived_and_until_it_is_trained() -> None:
    ahead = Ahead(100, 0, 0)
    ahead.sent(60)
    assert (ahead.num_bytes, ahead.is_full) == (60, False)
    ahead.sent(40)
    assert ahead.is_full
    ahead.arrived(0, 60)
    ahead.arrived(2, 40)
    assert ahead.num_bytes == 100
    ahead.trained(2)
    assert (ahead.num_bytes, ahead.is_full) == (40, False)


def test_what_was_there_before_keeps_the_gate_shut_until_it_is_counted() -> None:
    ahead = Ahead(100, 5, 9)
    assert ahead.is_full
    asked = [ahead.uncounted]
    ahead.count([(5, 70)], 7)
    asked.append(ahead.uncounted)
    ahead.count([(7, 70)], 8)
    asked.append(ahead.uncounted)
    ahead.trained(6)
    asked.append(ahead.uncounted)
    ahead.count([], 9)
    # None: the bound is reached, and how much more there is does not matter.
    assert asked == [(5, 9), (7, 9), None, (8, 9)]
    assert (ahead.num_bytes, ahead.is_full) == (70, False)


def test_what_the_trainer_has_already_passed_need_not_be_counted() -> None:
    ahead = Ahead(100, 0, 9)
    ahead.trained(20)
    assert (ahead.uncounted, ahead.is_full, ahead.num_bytes) == (None, False, 0)


def test_a_place_behind_an_earlier_one_changes_nothing() -> None:
    ahead = Ahead(100, 0, 0)
    ahead.sent(10)
    ahead.arrived(0, 10)
    ahead.trained(1)
    ahead.trained(0)
    assert ahead.num_bytes == 0


@given(before=SIZES, ours=SIZES, places=PLACES, bound=st.integers(1, 500), data=st.data())
def test_it_is_full_whenever_the_whole_log_says_so(
    before: list[int], ours: list[int], places: list[int], bound: int, data: st.DataObject
) -> None:
    """Offsets are even, as if markers lay between; pieces are counted, sent and trained in any order."""
    log = [(2 * at, size) for at, size in enumerate(before + ours)]
    end = 2 * len(before)
    ahead, place, left = Ahead(bound, 0, end), 0, log[len(before) :]
    on_the_way: list[tuple[int, int]] = []
    written = log[: len(before)]
    for step in data.draw(st.lists(st.sampled_from(["count", "send", "arrive", "train"]), max_size=60)):
        if step == "count" and (found := ahead.uncounted) is not None:
            piece = [one for one in log[: len(before)] if found[0] <= one[0] < found[1]][:2]
            ahead.count(piece, piece[-1][0] + 1 if piece else found[1])
        elif step == "send" and left:
            on_the_way.append(left.pop(0))
            ahead.sent(on_the_way[-1][1])
            written = [*written, on_the_way[-1]]
        elif step == "arrive" and on_the_way:
            ahead.arrived(*on_the_way.pop(0))
        elif step == "train" and places:
            # Only what has arrived can be trained.
            most = on_the_way[0][0] if on_the_way else 2 * len(written)
            place = max(place, min(places.pop(), most))
            ahead.trained(place)
        truth = sum(size for offset, size in written if offset >= place)
        assert ahead.num_bytes <= truth
        if truth >= bound:
            assert ahead.is_full
        if ahead.uncounted is None and ahead.num_bytes < bound:
            assert ahead.num_bytes == truth
