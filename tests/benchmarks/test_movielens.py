"""The model learns on a real log, at least as well as the obvious baseline on the very same batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.movielens import SEEDS, measure

pytestmark = pytest.mark.timeout(900)


def test_one_pass_over_movielens_beats_the_bar_and_stays_within_reach_of_logistic_regression(tmp_path: Path) -> None:
    (result,) = measure(SEEDS, tmp_path, ["clustered"])
    assert result["context"]["samples"] == 100_000
    assert result["value"] <= 0.92
    assert result["value"] <= result["baseline_value"] + 0.003
