"""The gate of a partition: what a second copy, a gap and an end record do."""

from __future__ import annotations

import pytest

from trainer.intake import GapError, Intake
from trainer.ledger import Position


def test_a_second_copy_behind_the_end_record_does_not_undo_the_end() -> None:
    intake = Intake(0, Position(next_offset=0, next_sequence=0))
    assert intake.accepts(0, 0)
    intake.ends(0)
    assert not intake.accepts(0, 2)
    assert (intake.ended_epoch, intake.duplicates) == (0, 1)
    assert intake.accepts(1, 3), "a new epoch begins"
    assert intake.ended_epoch == -1


def test_a_gap_stops_the_trainer_and_says_what_was_due() -> None:
    intake = Intake(0, Position(next_offset=7, next_sequence=3))
    with pytest.raises(GapError, match="sequence 3 was due, but 5 stands at offset 7; 2 mini-batches are missing"):
        intake.accepts(5, 7)
