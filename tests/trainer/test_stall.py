"""Learning pauses while positives that should have come do not, and as seldom by chance as is said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from streams.errors import ConfigError
from streams.minibatch import MiniBatch
from tests.trainer.lineage_kit import config, mini_batch, trainer
from trainer.checkpoint.load import newest
from trainer.config import TrainConfig
from trainer.ledger import Kind
from trainer.ledger_file import read
from trainer.run_config import CHECKPOINTS, LEDGER, TrainerConfig
from trainer.stall import StallGuard


def one(label: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([[label]]), torch.ones(1, 1)


def guard_with_rate(rate: float, limit: float) -> StallGuard:
    """A guard that has seen enough to know the rate."""
    guard, num = StallGuard(1, limit), 10_000
    labels = torch.zeros(num, 1)
    labels[: int(rate * num)] = 1
    assert guard.stalled(labels, torch.ones(num, 1)) == []
    return guard


def test_it_pauses_when_more_positives_are_missing_than_the_limit_and_the_first_one_ends_it() -> None:
    guard = guard_with_rate(0.1, limit=5)
    found = [bool(guard.stalled(*one(0))) for _ in range(60)]
    assert found.index(True) in (50, 51)
    assert all(found[52:])
    assert guard.stalled(*one(1)) == []
    assert guard.stalled(*one(0)) == []


def test_a_label_that_is_missing_says_nothing() -> None:
    guard = guard_with_rate(0.5, limit=3)
    assert not any(guard.stalled(torch.zeros(4, 1), torch.zeros(4, 1)) for _ in range(100))


def test_a_task_without_positives_yet_pauses_nothing_and_one_of_several_is_named() -> None:
    guard = StallGuard(2, 4.0)
    both = torch.tensor([[1.0, 0.0]] * 20)
    assert guard.stalled(both, torch.ones(20, 2)) == []
    assert guard.stalled(torch.zeros(20, 2), torch.ones(20, 2)) == [0]


def test_by_chance_it_pauses_once_in_exp_of_the_limit_stretches() -> None:
    """Bernoulli labels, a stretch from positive to positive: about exp(-3) of them are longer than 3 / p."""
    rate, limit = 0.05, 3.0
    guard, draw = guard_with_rate(rate, limit), np.random.default_rng(5)
    stretches = alarms = 0
    paused = False
    for label in (draw.random(120_000) < rate).astype(np.float32).tolist():
        now = bool(guard.stalled(*one(label)))
        alarms += now and not paused
        stretches += label == 1
        paused = now
    expected = math.exp(-limit)
    assert alarms / stretches == pytest.approx(expected, abs=5 * math.sqrt(expected / stretches))


def log_of(negative: range) -> Mapping[int, Sequence[MiniBatch]]:
    """Thirty mini-batches of twelve samples, of which some have no positive label."""
    batches = [mini_batch(0, sequence, 12) for sequence in range(30)]
    return {
        0: [
            replace(batch, labels=np.zeros_like(batch.labels)) if batch.sequence in negative else batch
            for batch in batches
        ]
    }


def paused_steps(directory: Path) -> list[int]:
    return [line.step for line in read(directory / LEDGER) if line.kind is Kind.SKIPPED and line.reason == "paused"]


def settings_in(directory: Path) -> TrainerConfig:
    settings = config(directory)
    return replace(settings, train=replace(settings.train, stall_positives=20.0))


def test_paused_steps_change_nothing_are_counted_and_a_restart_goes_on_alike(tmp_path: Path) -> None:
    log, whole, broken = log_of(range(10, 20)), settings_in(tmp_path / "whole"), settings_in(tmp_path / "broken")
    summary = trainer(whole, log).run()
    paused = paused_steps(tmp_path / "whole")
    assert paused == list(range(paused[0], 21))
    assert 13 <= paused[0] <= 15, "half of the labels are positive: twenty are missing after about forty samples"
    assert (summary.lineage_samples, summary.lineage_skipped_samples) == (12 * (30 - len(paused)), 12 * len(paused))
    trainer(broken, log, max_steps=paused[0] + 1).run()
    trainer(broken, log).run()
    assert paused_steps(tmp_path / "broken") == paused
    one, other = (newest(Path(each.checkpoint.directory) / CHECKPOINTS).checkpoint for each in (whole, broken))
    assert one is not None
    assert other is not None
    theirs = other.tensors()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in one.tensors().items())


def test_a_checkpoint_of_before_is_gone_on_with(tmp_path: Path) -> None:
    log = log_of(range(10, 20))
    trainer(config(tmp_path), log, max_steps=5).run()
    assert trainer(settings_in(tmp_path), log).run().step == 30


def test_a_limit_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train.stall_positives = -1"):
        TrainConfig(stall_positives=-1)
