"""The online logistic regression that the model has to beat."""

from __future__ import annotations

import numpy as np
import pytest

from streams.minibatch import MiniBatch
from tests.trainer.sample import batch_of, ikjt_of
from trainer.baseline import OnlineLogisticRegression, best_of


def batch_with(users: list[int], items: list[int], labels: list[int]) -> MiniBatch:
    groups = [ikjt_of("user", [{"user": [u]} for u in users]), ikjt_of("item", [{"item": [i]} for i in items])]
    return batch_of(groups, [[y] for y in labels])


def test_scores_are_taken_before_the_step_and_the_step_is_adagrad() -> None:
    model = OnlineLogisticRegression(["user", "item"], learning_rate=0.1)
    batch = batch_with([1, 1, 2], [7, 8, 7], [1, 1, 0])
    assert model.run(batch).tolist() == [0, 0, 0]
    # Gradients sum to -1/3 for user 1 and +1/6 for user 2, to 0 for item 7, -1/6 for item 8 and for the bias:
    # the first step of Adagrad is the learning rate with the sign against the gradient.
    assert model.run(batch) == pytest.approx([0.1 + 0.0 + 0.1, 0.1 + 0.1 + 0.1, -0.1 + 0.0 + 0.1], abs=1e-6)


def test_it_learns_users_and_items() -> None:
    rng = np.random.default_rng(0)
    taste, appeal = rng.normal(0, 1, 20), rng.normal(0, 1, 20)
    batches = []
    for _ in range(200):
        users, items = rng.integers(0, 20, 32), rng.integers(0, 20, 32)
        clicks = rng.random(32) < 1 / (1 + np.exp(-taste[users] - appeal[items]))
        batches.append(batch_with(users.tolist(), items.tolist(), clicks.astype(int).tolist()))
    by_rate = best_of(batches, ["user", "item"], (0.001, 0.1))
    assert by_rate[0.1] < 0.9 < by_rate[0.001] < 1.01
