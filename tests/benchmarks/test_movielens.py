"""The model learns on a real log, at least as well as the obvious baseline on the very same batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.movielens import SEEDS, measure

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("seeds", [SEEDS[:1], pytest.param(SEEDS, marks=pytest.mark.audit)], ids=["one", "all"])
def test_one_pass_over_movielens_beats_the_bar_and_stays_within_reach_of_logistic_regression(
    tmp_path: Path, seeds: Sequence[int]
) -> None:
    (result,) = measure(seeds, tmp_path, ["clustered"])
    assert result["context"]["samples"] == 100_000
    assert result["value"] <= 0.92
    assert result["value"] <= result["baseline_value"] + 0.003
