"""Progressive metrics against their formulas; undefined is None; a NaN or a missing label harms nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from streams.errors import InvariantError
from trainer.evaluate import WHOLE_STREAM, Evaluator


def scored(seed: int, num: int, tasks: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num, tasks, generator=generator)
    return logits, (torch.rand(num, tasks, generator=generator) < torch.sigmoid(logits)).float()


def formulas(logits: Tensor, labels: Tensor) -> dict[str, float]:
    p, y = torch.sigmoid(logits.double()), labels.double()
    log_loss = float(-(y * p.log() + (1 - y) * (1 - p).log()).mean())
    rate = float(y.mean())
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    return {"log_loss": log_loss, "ne": log_loss / entropy, "calibration": float(p.mean()) / rate, "base_rate": rate}


def fed(evaluator: Evaluator, logits: Tensor, labels: Tensor, sizes: int = 37) -> dict[str, dict[str, Any]]:
    for start in range(0, len(logits), sizes):
        evaluator.update(logits[start : start + sizes], labels[start : start + sizes])
    return evaluator.report()


def test_window_and_lifetime_are_the_formulas_over_their_samples() -> None:
    logits, labels = scored(0, 500)
    report = fed(Evaluator(["click"], window=100), logits, labels)["click"]
    for name, value in formulas(logits, labels).items():
        assert report["lifetime"][name] == pytest.approx(value, rel=1e-9)
    for name, value in formulas(logits[-100:], labels[-100:]).items():
        assert report["window"][name] == pytest.approx(value, rel=1e-9)
    assert (report["window"]["samples"], report["lifetime"]["samples"]) == (100, 500)


def test_an_update_larger_than_the_window_leaves_its_newest_samples() -> None:
    logits, labels = scored(1, 250)
    report = fed(Evaluator(["click"], window=100), logits, labels, sizes=250)["click"]
    assert report["window"]["ne"] == pytest.approx(formulas(logits[-100:], labels[-100:])["ne"], rel=1e-9)


def test_knowing_the_base_rate_only_is_an_ne_of_one() -> None:
    labels = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
    report = fed(Evaluator(["click"]), torch.full((4, 1), float(np.log(0.25 / 0.75))), labels)["click"]["lifetime"]
    assert report["ne"] == pytest.approx(1.0, rel=1e-6)
    assert report["calibration"] == pytest.approx(1.0, rel=1e-6)
    assert report["auc"] == 0.5


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_window_of_one_class_is_undefined_and_the_next_one_is_not(label: float) -> None:
    evaluator = Evaluator(["click"], window=10)
    report = fed(evaluator, torch.zeros(10, 1), torch.full((10, 1), label))["click"]["window"]
    assert (report["ne"], report["auc"]) == (None, None)
    assert report["log_loss"] == pytest.approx(np.log(2))
    logits, labels = scored(2, 10)
    labels[0], labels[1] = 0, 1
    report = fed(evaluator, logits, labels)["click"]["window"]
    assert report["ne"] == pytest.approx(formulas(logits, labels)["ne"], rel=1e-9)
    assert report["auc"] is not None


def test_nothing_seen_is_undefined() -> None:
    report = Evaluator(["click"]).report()["click"]
    assert report["window"] == report["lifetime"]
    assert (report["lifetime"]["samples"], report["lifetime"]["ne"], report["lifetime"]["auc"]) == (0, None, None)


def test_a_score_that_is_not_finite_is_counted_and_left_out() -> None:
    logits, labels = scored(3, 50)
    clean = fed(Evaluator(["click"]), logits, labels)["click"]
    bad = torch.tensor([[torch.nan], [torch.inf], [-torch.inf]])
    report = fed(Evaluator(["click"]), torch.cat([logits, bad]), torch.cat([labels, torch.ones(3, 1)]))["click"]
    assert report["not_finite"] == 3
    assert report["lifetime"] == clean["lifetime"]


def test_a_missing_label_counts_for_no_metric_of_its_task_only() -> None:
    logits, labels = scored(4, 60, tasks=2)
    labels[:10, 0] = torch.nan
    report = fed(Evaluator(["click", "buy"]), logits, labels)
    assert report["click"]["lifetime"]["samples"] == 50
    assert report["buy"]["lifetime"]["samples"] == 60
    assert report["click"]["lifetime"]["ne"] == pytest.approx(formulas(logits[10:, 0], labels[10:, 0])["ne"])


def test_extreme_scores_keep_a_finite_loss() -> None:
    report = fed(Evaluator(["click"]), torch.tensor([[500.0], [-500.0]]), torch.tensor([[0.0], [1.0]]))["click"]
    assert report["lifetime"]["log_loss"] == pytest.approx(500)


def test_a_restored_evaluator_continues_exactly_from_every_step() -> None:
    logits, labels = scored(5, 400, tasks=2)
    straight = Evaluator(["click", "buy"], window=100)
    resumed = Evaluator(["click", "buy"], window=100)
    for start in range(0, 400, 30):
        part = slice(start, start + 30)
        straight.update(logits[part], labels[part])
        resumed.update(logits[part], labels[part])
        fresh = Evaluator(["click", "buy"], window=100)
        fresh.load_state(resumed.state())
        resumed = fresh
        assert resumed.report() == straight.report()


def test_a_state_of_another_window_or_task_is_refused_in_words() -> None:
    state = Evaluator(["click"], window=100).state()
    with pytest.raises(InvariantError, match="window_samples"):
        Evaluator(["click"], window=50).load_state(state)
    with pytest.raises(InvariantError, match=r"buy\.ring"):
        Evaluator(["buy"], window=100).load_state(state)


def test_logits_of_another_shape_than_the_labels_are_refused() -> None:
    with pytest.raises(InvariantError, match="must be"):
        Evaluator(["click"]).update(torch.zeros(3, 1), torch.zeros(2, 1))


def test_a_sample_that_stands_for_several_counts_as_several_and_is_one_sample() -> None:
    logits, labels = scored(5, 60)
    counts = torch.where(labels == 1, 1.0, 3.0).double()
    evaluator = Evaluator(["click"], window=20)
    evaluator.update(logits, labels, counts)
    report = evaluator.report()["click"]
    for scope, first in (("lifetime", 0), ("window", 40)):
        times = counts[first:, 0].long()
        expected = formulas(*(each[first:].repeat_interleave(times, dim=0) for each in (logits, labels)))
        for name, value in expected.items():
            assert report[scope][name] == pytest.approx(value, rel=1e-9)
    assert report["lifetime"]["samples"] == 60
    assert report["stream"] == WHOLE_STREAM


def test_metrics_stored_before_samples_stood_for_several_go_on() -> None:
    logits, labels = scored(6, 80)
    old = Evaluator(["click"], window=50)
    old.update(logits[:60], labels[:60])
    state = {name: tensor for name, tensor in old.state().items() if "stood_for" not in name and "ring_c" not in name}
    new = Evaluator(["click"], window=50)
    new.load_state(state)
    for each in (old, new):
        each.update(logits[60:], labels[60:])
    assert new.report() == old.report()
