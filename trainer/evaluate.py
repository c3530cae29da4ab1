"""Progressive metrics: every sample is scored by the model before the model learns from it.

Owns normalized entropy, AUC and calibration per task, over the last samples and over the lifetime. Where negatives
were sampled out, a kept one counts as often as the samples it stands for, so that log loss, NE, calibration and base
rate are those of the stream as it happened; AUC counts samples as they came, which for one task is the same. A value
that is not defined (one class, no samples) is None, never 0, 0.5 or a number that is not one. Reading logits
waits for the device, so the loop hands them over one step late.

Shape suffixes: B samples, T tasks, S samples of one task that count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streams.errors import InvariantError
from trainer.auc import LifetimeAuc, auc_of

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

WHOLE_STREAM: Final = "as it happened"
"""What metrics are of: all samples, those that were sampled out included, by what the kept ones stand for."""
SAMPLED_STREAM: Final = "as sampled"
"""What metrics are of where `train.correct_sampling` is off: the samples as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Quality over a set of samples, of the stream that the report names; None where a value is not defined."""

    samples: int
    """Samples that were scored, each once."""
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

    def __init__(self, tasks: Sequence[str], window: int = 10_000, stream: str = WHOLE_STREAM) -> None:
        self._tasks = {name: _Task(window) for name in tasks}
        self._stream = stream

    def update(self, logits: Tensor, labels: Tensor, stands_for: Tensor | None = None) -> None:
        """Add [B, T] scores taken before the step. A NaN label is missing; a non-finite score is only counted.

        `stands_for` [B, 1]: how many samples of the stream each one stands for; without it each is one.
        """
        logits_BT = logits.detach().cpu().numpy().astype(np.float32, copy=False)
        labels_BT = labels.detach().cpu().numpy().astype(np.float32, copy=False)
        expected = (len(labels_BT), len(self._tasks))
        if logits_BT.shape != expected or labels_BT.shape != expected:
            raise InvariantError(f"logits {logits_BT.shape}, labels {labels_BT.shape}: both must be {expected}")
        counts_B = np.ones(len(labels_BT)) if stands_for is None else stands_for.cpu().numpy()[:, 0]
        for place, task in enumerate(self._tasks.values()):
            task.update(logits_BT[:, place], labels_BT[:, place], counts_B)

    def report(self) -> dict[str, dict[str, Any]]:
        """Task to {"window": metrics, "lifetime": metrics, "not_finite": scores left out, "stream": of what}."""
        return {name: task.report() | {"stream": self._stream} for name, task in self._tasks.items()}

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
        for name in self._tasks:
            # Metrics of before samples could stand for several.
            if f"{name}.counts" in state and f"{name}.stood_for" not in state:
                samples = state[f"{name}.counts"][0].to(torch.float64)
                ones = torch.ones_like(own[f"{name}.ring_counts"])
                state = {**state, f"{name}.stood_for": samples, f"{name}.ring_counts": ones}
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
        self._ring_counts = np.ones(window, np.float64)
        self._stood_for = np.zeros((), np.float64)  # samples of the stream behind the sums
        self._sums = np.zeros(3, np.float64)  # log loss, prediction, label
        self._samples = 0
        self._not_finite = 0
        self._auc = LifetimeAuc()

    def update(self, logits_B: F32, labels_B: F32, counts_B: F64) -> None:
        labelled = ~np.isnan(labels_B)
        finite = np.isfinite(logits_B)
        self._not_finite += int(np.count_nonzero(labelled & ~finite))
        chosen = labelled & finite
        logits_S, labels_S, counts_S = logits_B[chosen], labels_B[chosen], counts_B[chosen]
        if len(logits_S) == 0:
            return
        newest = min(len(logits_S), self._ring.shape[1])
        places = (self._samples + np.arange(len(logits_S) - newest, len(logits_S))) % self._ring.shape[1]
        self._ring[:, places] = logits_S[-newest:], labels_S[-newest:]
        self._ring_counts[places] = counts_S[-newest:]
        self._samples += len(logits_S)
        self._stood_for += counts_S.sum()
        self._sums += _sums(logits_S, labels_S, counts_S)
        self._auc.update(logits_S, labels_S)

    def report(self) -> dict[str, Any]:
        logits_S, labels_S = self._ring[:, : min(self._samples, self._ring.shape[1])]
        counts_S = self._ring_counts[: len(logits_S)]
        sums = _sums(logits_S, labels_S, counts_S)
        window = _metrics(len(logits_S), float(counts_S.sum()), sums, auc_of(logits_S, labels_S), 0.0)
        lifetime = _metrics(self._samples, float(self._stood_for), self._sums, *self._auc.value())
        return {"window": asdict(window), "lifetime": asdict(lifetime), "not_finite": self._not_finite}

    def state(self) -> dict[str, npt.NDArray[Any]]:
        counts = np.asarray([self._samples, self._not_finite], np.int64)
        auc = {f"auc.{key}": value for key, value in self._auc.state().items()}
        own: dict[str, npt.NDArray[Any]] = {"ring": self._ring.copy(), "sums": self._sums.copy(), "counts": counts}
        return own | {"ring_counts": self._ring_counts.copy(), "stood_for": self._stood_for.copy()} | auc

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._ring[:], self._sums[:] = state["ring"], state["sums"]
        self._ring_counts[:], self._stood_for = state["ring_counts"], np.array(state["stood_for"], np.float64)
        self._samples, self._not_finite = (int(count) for count in state["counts"])
        auc = {key.removeprefix("auc."): value for key, value in state.items() if key.startswith("auc.")}
        self._auc.load_state(auc)


def _sums(logits_S: F32, labels_S: F32, counts_S: F64) -> F64:
    """Sums of log loss, prediction and label over what each sample stands for, in float64."""
    logits, labels = logits_S.astype(np.float64), labels_S.astype(np.float64)
    log_loss = np.logaddexp(0, logits) - labels * logits
    prediction = 0.5 * (1 + np.tanh(0.5 * logits))
    return np.asarray([(each * counts_S).sum() for each in (log_loss, prediction, labels)])


def _metrics(samples: int, stood_for: float, sums: F64, auc: float | None, auc_error: float) -> Metrics:
    if samples == 0:
        return Metrics(samples=0, log_loss=None, ne=None, auc=None, auc_error=0.0, calibration=None, base_rate=None)
    log_loss, prediction, label = (float(total) / stood_for for total in sums)
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
