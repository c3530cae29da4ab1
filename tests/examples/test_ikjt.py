"""The example gives the same sums in both forms, and looks up what the formula says."""

from __future__ import annotations

import pytest

from examples.ikjt import CHANGES, LENGTH, SAMPLES, SESSIONS, compare


@pytest.mark.parametrize("seed", [0, 1])
def test_both_forms_give_the_same_and_the_ikjt_looks_up_as_many_ids_as_predicted(seed: int) -> None:
    found = compare(seed)
    expanded = found["ids of the history, KJT"]
    assert expanded == SESSIONS * SAMPLES * LENGTH
    assert found["largest difference"] <= 1e-5
    predicted = 1 / (1 - (SAMPLES - 1) / SAMPLES * (1 - CHANGES))
    assert expanded / found["ids of the history, IKJT"] == pytest.approx(predicted, rel=0.15)
    rows = found["ids of the history, IKJT"] / LENGTH
    assert found["ids of the history, windows"] == SESSIONS * LENGTH + (rows - SESSIONS)
