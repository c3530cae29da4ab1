"""The hot tier's directory: the least recently used rows leave, and never one that the step needs."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import ConfigError
from trainer.cache.directory import Directory

ROWS, SLOTS = 24, 7
STEPS = st.lists(st.sets(st.integers(0, ROWS - 1), max_size=SLOTS).map(sorted), max_size=30)


@given(steps=STEPS)
def test_the_rows_that_leave_are_those_used_longest_ago(steps: list[list[int]]) -> None:
    """Against an ordered dictionary: hits move to its end, then the missing push out its beginning."""
    directory, hot = Directory(ROWS, SLOTS), OrderedDict[int, None]()
    for rows in steps:
        admission = directory.admit(np.asarray(rows, np.int64))
        missing = [row for row in rows if row not in hot]
        for row in rows:
            if row in hot:
                hot.move_to_end(row)
        evicted = []
        for row in missing:
            if len(hot) == SLOTS:
                evicted.append(hot.popitem(last=False)[0])
            hot[row] = None
        assert admission.missing_M.tolist() == missing
        assert admission.evicted_E.tolist() == evicted
        assert directory.row_of_slot[admission.slot_X].tolist() == rows
        assert sorted(directory.resident()[0].tolist()) == sorted(hot)


@given(steps=STEPS)
def test_every_hot_row_has_a_slot_of_its_own(steps: list[list[int]]) -> None:
    directory = Directory(ROWS, SLOTS)
    for rows in steps:
        directory.admit(np.asarray(rows, np.int64))
        rows_hot, slots = directory.resident()
        assert len(set(rows_hot.tolist())) == len(slots)
        assert directory.slot_of_row[rows_hot].tolist() == slots.tolist()
        assert int((directory.slot_of_row >= 0).sum()) == len(slots)


def test_a_step_with_more_rows_than_slots_is_refused_and_moves_nothing() -> None:
    directory = Directory(ROWS, SLOTS)
    directory.admit(np.arange(3))
    with pytest.raises(ConfigError, match=r"8 distinct rows.*raise train.hot_rows"):
        directory.admit(np.arange(8))
    assert sorted(directory.resident()[0].tolist()) == [0, 1, 2]


def test_what_is_forgotten_comes_anew() -> None:
    directory = Directory(ROWS, SLOTS)
    directory.admit(np.arange(5))
    directory.forget()
    admission = directory.admit(np.arange(2, 6))
    assert admission.missing_M.tolist() == [2, 3, 4, 5]
    assert not len(admission.evicted_E)
