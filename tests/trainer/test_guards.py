"""Too many skipped steps in a row stop the trainer; single ones do not."""

from __future__ import annotations

import pytest

from streams.errors import InvariantError
from trainer.guards import SkipGuard
from trainer.step import Verdict


def test_more_skips_in_a_row_than_allowed_stop_with_a_remedy() -> None:
    guard = SkipGuard(2)
    guard.note(Verdict.NOT_FINITE)
    guard.note(Verdict.NOT_FINITE)
    with pytest.raises(InvariantError, match=r"3 steps in a row.*go back to an earlier checkpoint"):
        guard.note(Verdict.NOT_FINITE)


def test_a_learned_step_starts_the_count_anew() -> None:
    guard = SkipGuard(1)
    for _ in range(5):
        guard.note(Verdict.NOT_FINITE)
        guard.note(Verdict.LEARNED)
    assert guard.skipped == {Verdict.NOT_FINITE: 5, Verdict.NO_WEIGHT: 0, Verdict.PAUSED: 0}


def test_steps_without_labels_neither_add_nor_reset() -> None:
    guard = SkipGuard(1)
    for _ in range(9):
        guard.note(Verdict.NO_WEIGHT)
    guard.note(Verdict.NOT_FINITE)
    guard.note(Verdict.NO_WEIGHT)
    with pytest.raises(InvariantError):
        guard.note(Verdict.NOT_FINITE)
    assert guard.skipped[Verdict.NO_WEIGHT] == 10
