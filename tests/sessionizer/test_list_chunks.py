"""Lists of held rows come back as they were, however they arrived and whatever was forgotten meanwhile."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.growing import grown, zeros
from sessionizer.list_chunks import ListChunks
from streams.events.event import ListColumn
from streams.ikjt.jagged import Jagged

LISTS = st.lists(st.integers(0, 9), max_size=4)


def column(lists: list[list[int]]) -> ListColumn:
    distinct = sorted(set(map(tuple, lists)))
    index = np.array([distinct.index(tuple(one)) for one in lists], np.int32)
    return ListColumn(rows=Jagged.from_lists(distinct), index=index)


@given(st.lists(st.lists(LISTS, min_size=1, max_size=6), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_each_row_has_its_list(polls: list[list[list[int]]], random: Random) -> None:
    chunks, held = ListChunks(1), dict[int, list[int]]()
    chunks.grow(sum(map(len, polls)))
    for poll in polls:
        names = np.arange(len(held), len(held) + len(poll), dtype=np.int32)
        chunks.add((column(poll),), names)
        held |= dict(zip(names.tolist(), poll, strict=True))
    asked = list(held)
    random.shuffle(asked)
    (found,) = chunks.take(np.array(asked, np.int32))
    assert found.per_event.to_lists() == [held[name] for name in asked]


def test_what_is_mostly_forgotten_is_kept_in_one_piece() -> None:
    chunks, num = ListChunks(1), 3_000
    chunks.grow(2 * num)
    for start in (0, num):
        chunks.add((column([[i % 7] for i in range(num)]),), np.arange(start, start + num, dtype=np.int32))
    live = np.arange(0, 2 * num, 60, dtype=np.int32)
    gone = np.setdiff1d(np.arange(2 * num, dtype=np.int32), live)

    chunks.free(gone, lambda: live)

    (found,) = chunks.take(live)
    assert found.per_event.to_lists() == [[(name % num) % 7] for name in live.tolist()]
    assert chunks.num_held == len(live)


def test_a_grown_array_holds_what_it_held_and_zeros() -> None:
    small = np.arange(6, dtype=np.int64).reshape(3, 2)
    for size in (4, 200_000):
        larger = grown(small, size, 2)
        assert larger.shape == (size, 2)
        assert larger[:2].tolist() == [[0, 1], [2, 3]]
        assert not larger[2:].any()


def test_large_zeros_can_be_written_to() -> None:
    array = zeros((1 << 18,), np.int64)
    array[-1] = 7
    assert (array.sum(), len(array)) == (7, 1 << 18)
