"""The hot tier's directory: the least recently used rows leave, and never one that the step needs."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import ConfigError
from trainer.cache.directory import PROTECTED, Directory

ROWS, SLOTS = 24, 7
STEPS = st.lists(st.sets(st.integers(0, ROWS - 1), max_size=SLOTS).map(sorted), max_size=30)


class Segmented:
    """The rule by two ordered dictionaries, oldest first; free slots come before any row."""

    def __init__(self) -> None:
        self.probation, self.protected = OrderedDict[int, None](), OrderedDict[int, None]()

    def admit(self, rows: list[int]) -> tuple[list[int], list[int]]:
        """Rows that come and rows that leave."""
        missing = [row for row in rows if row not in self.probation and row not in self.protected]
        for row in rows:
            if row in missing:
                continue
            self.probation.pop(row, None)
            self.protected.pop(row, None)
            self.protected[row] = None
            if len(self.protected) > int(PROTECTED * SLOTS):
                self.probation[self.protected.popitem(last=False)[0]] = None
        evicted = []
        for row in missing:
            if len(self.probation) + len(self.protected) == SLOTS:
                others = [old for old in (*self.probation, *self.protected) if old not in rows]
                evicted.append(others[0])
                self.probation.pop(others[0], None)
                self.protected.pop(others[0], None)
            self.probation[row] = None
        return missing, evicted


@given(steps=STEPS)
def test_rows_on_probation_leave_first_and_of_these_the_one_used_longest_ago(steps: list[list[int]]) -> None:
    directory, oracle = Directory(ROWS, SLOTS), Segmented()
    for rows in steps:
        assert directory.missing(np.asarray(rows, np.int64)).tolist() == [
            row for row in rows if row not in oracle.probation and row not in oracle.protected
        ]
        admission = directory.admit(np.asarray(rows, np.int64))
        missing, evicted = oracle.admit(rows)
        assert admission.missing_M.tolist() == missing
        assert admission.evicted_E.tolist() == evicted
        assert directory.row_of_slot[admission.slot_X].tolist() == rows
        assert sorted(directory.resident()[0].tolist()) == sorted([*oracle.probation, *oracle.protected])


def test_rows_that_come_once_do_not_push_out_what_is_used_again() -> None:
    directory = Directory(10_000, 100)
    often = np.arange(50)
    for step in range(50):
        directory.admit(np.concatenate([often, 100 + 40 * step + np.arange(40)]))
        assert step == 0 or len(directory.missing(often)) == 0


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
