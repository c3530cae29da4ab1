"""Progressive metrics: every sample is scored by the model before the model learns from it.

Owns normalized entropy, AUC and calibration per task, over the last samples and over the lifetime. A value
that is not defined (one class, no samples) is None, never 0, 0.5 or a number that is not one. Reading logits
waits for the device, so the loop hands them over one step late.

Shape suffixes: B samples, T tasks, S samples of one task that count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streams.errors import InvariantError
from trainer.auc import LifetimeAuc, auc_of

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Quality over a set of samples; None where a value is not defined."""

    samples: int
    log_loss: float | None
    ne: float | None
    """Log loss over the entropy of the mean label: 1.0 is as good as knowing the base rate only."""
    auc: float | None
    auc_error: float
    """The most that `auc` can be off."""
    calibration: float | None
    """Mean prediction over mean label."""
    base_rate: float | None


class Evaluator:
    """Metrics of several binary tasks."""

    def __init__(self, tasks: Sequence[str], window: int = 10_000) -> None:
        self._tasks = {name: _Task(window) for name in tasks}

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Add [B, T] scores taken before the step. A NaN label is missing; a non-finite score is only counted."""
        logits_BT = logits.detach().cpu().numpy().astype(np.float32, copy=False)
        labels_BT = labels.detach().cpu().numpy().astype(np.float32, copy=False)
        expected = (len(labels_BT), len(self._tasks))
        if logits_BT.shape != expected or labels_BT.shape != expected:
            raise InvariantError(f"logits {logits_BT.shape}, labels {labels_BT.shape}: both must be {expected}")
        for place, task in enumerate(self._tasks.values()):
            task.update(logits_BT[:, place], labels_BT[:, place])

    def report(self) -> dict[str, dict[str, Any]]:
        """Task to {"window": metrics, "lifetime": metrics, "not_finite": scores left out}."""
        return {name: task.report() for name, task in self._tasks.items()}

    def state(self) -> dict[str, Tensor]:
        """Flat names to tensors of constant shape; a copy."""
        return {
            f"{name}.{key}": torch.from_numpy(np.asarray(value))
            for name, task in self._tasks.items()
            for key, value in task.state().items()
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue exactly where `state()` was taken; another window or other tasks are refused in words."""
        own = self.state()
        wrong = sorted(own.keys() ^ state.keys())
        wrong += sorted(key for key in own.keys() & state.keys() if own[key].shape != state[key].shape)
        if wrong:
            raise InvariantError(
                f"stored metrics do not fit the configured tasks and window: {', '.join(wrong)}. "
                "Keep train.window_samples and the labels, or start the metrics anew"
            )
        for name, task in self._tasks.items():
            mine = {key.removeprefix(f"{name}."): state[key] for key in own if key.startswith(f"{name}.")}
            task.load_state({key: tensor.cpu().numpy() for key, tensor in mine.items()})


class _Task:
    """One task: a ring of the last samples, and sums over all."""

    def __init__(self, window: int) -> None:
        self._ring = np.zeros((2, window), np.float32)
        self._sums = np.zeros(3, np.float64)  # log loss, prediction, label
        self._samples = 0
        self._not_finite = 0
        self._auc = LifetimeAuc()

    def update(self, logits_B: F32, labels_B: F32) -> None:
        labelled = ~np.isnan(labels_B)
        finite = np.isfinite(logits_B)
        self._not_finite += int(np.count_nonzero(labelled & ~finite))
        logits_S, labels_S = logits_B[labelled & finite], labels_B[labelled & finite]
        if len(logits_S) == 0:
            return
        newest = min(len(logits_S), self._ring.shape[1])
        places = (self._samples + np.arange(len(logits_S) - newest, len(logits_S))) % self._ring.shape[1]
        self._ring[:, places] = logits_S[-newest:], labels_S[-newest:]
        self._samples += len(logits_S)
        self._sums += _sums(logits_S, labels_S)
        self._auc.update(logits_S, labels_S)

    def report(self) -> dict[str, Any]:
        logits_S, labels_S = self._ring[:, : min(self._samples, self._ring.shape[1])]
        window = _metrics(len(logits_S), _sums(logits_S, labels_S), auc_of(logits_S, labels_S), 0.0)
        lifetime = _metrics(self._samples, self._sums, *self._auc.value())
        return {"window": asdict(window), "lifetime": asdict(lifetime), "not_finite": self._not_finite}

    def state(self) -> dict[str, npt.NDArray[Any]]:
        counts = np.asarray([self._samples, self._not_finite], np.int64)
        auc = {f"auc.{key}": value for key, value in self._auc.state().items()}
        own: dict[str, npt.NDArray[Any]] = {"ring": self._ring.copy(), "sums": self._sums.copy(), "counts": counts}
        return own | auc

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._ring[:], self._sums[:] = state["ring"], state["sums"]
        self._samples, self._not_finite = (int(count) for count in state["counts"])
        auc = {key.removeprefix("auc."): value for key, value in state.items() if key.startswith("auc.")}
        self._auc.load_state(auc)


def _sums(logits_S: F32, labels_S: F32) -> F64:
    """Sums of log loss, prediction and label, in float64."""
    logits, labels = logits_S.astype(np.float64), labels_S.astype(np.float64)
    log_loss = np.logaddexp(0, logits) - labels * logits
    prediction = 0.5 * (1 + np.tanh(0.5 * logits))
    return np.asarray([log_loss.sum(), prediction.sum(), labels.sum()])


def _metrics(samples: int, sums: F64, auc: float | None, auc_error: float) -> Metrics:
    if samples == 0:
        return Metrics(samples=0, log_loss=None, ne=None, auc=None, auc_error=0.0, calibration=None, base_rate=None)
    log_loss, prediction, label = (float(total) / samples for total in sums)
    entropy = -(label * np.log(label) + (1 - label) * np.log1p(-label)) if 0 < label < 1 else 0.0
    return Metrics(
        samples=samples,
        log_loss=log_loss,
        ne=float(log_loss / entropy) if entropy > 0 else None,
        auc=auc,
        auc_error=auc_error,
        calibration=prediction / label if label > 0 else None,
        base_rate=label,
    )
