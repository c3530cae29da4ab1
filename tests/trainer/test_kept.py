"""What is said of a step that was not finite."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.trainer.lineage_kit import SCHEMA, mini_batch
from trainer.kept import cause_of


def test_inputs_that_are_no_numbers_are_named_with_the_samples_that_have_them() -> None:
    whole, bad = mini_batch(0, 0, 12), mini_batch(0, 1, 12)
    bad.dense[3:5] = np.nan
    bad.labels[7] = np.inf
    whole.labels[0] = np.nan
    assert cause_of([whole, bad], SCHEMA, torch.zeros(24, 1)) == {
        "samples_by_column": {"label like": 1, "dense hour": 2}
    }


@pytest.mark.parametrize(("logit", "remedy"), [(0.0, "lower the learning rates"), (float("nan"), "rewind")])
def test_where_all_inputs_are_finite_it_is_the_model(logit: float, remedy: str) -> None:
    cause = cause_of([mini_batch(0, 0, 12)], SCHEMA, torch.full((12, 1), logit))
    assert remedy in cause["model"]
