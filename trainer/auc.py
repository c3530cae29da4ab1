"""Area under the ROC curve: tie-safe, defined only where both classes occur, in bounded memory.

Owns the lifetime AUC: exact up to a number of samples, then from a histogram of scores with a stated error.

Shape suffixes: S samples, H bins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

BINS: Final = 1 << 16


def auc_of(scores_S: F32, labels_S: F32) -> float | None:
    """Probability that a positive scores above a negative, ties counting half; None without one of the classes."""
    order = np.argsort(scores_S, kind="stable")
    scores, positive = scores_S[order], labels_S[order] > 0.5
    # Samples of one score form a bin, whatever order they came in.
    starts = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1]])) if len(scores) else np.empty(0, int)
    positives = np.add.reduceat(positive, starts, dtype=np.int64) if len(scores) else np.empty(0, np.int64)
    totals = np.diff(np.append(starts, len(scores)))
    return auc_of_bins(positives, totals - positives)


def auc_of_bins(positives_H: I64, negatives_H: I64) -> float | None:
    """The same from counts per score, in rising order of scores."""
    num_positive, num_negative = int(positives_H.sum()), int(negatives_H.sum())
    if num_positive == 0 or num_negative == 0:
        return None
    below_H = np.cumsum(negatives_H) - negatives_H
    won = float(np.dot(positives_H.astype(np.float64), below_H + 0.5 * negatives_H))
    return won / (float(num_positive) * num_negative)


def bins_of(scores_S: F32) -> I64:
    """Bin of each score: the upper half of its float32 bits in rising order, so bins are about 0.8 % wide."""
    bits = np.ascontiguousarray(scores_S + np.float32(0)).view(np.uint32)  # + 0 makes -0.0 equal to 0.0
    rising = np.where(bits >> np.uint32(31) == 1, ~bits, bits | np.uint32(1 << 31))
    return (rising >> np.uint32(16)).astype(np.int64)


class LifetimeAuc:
    """AUC over everything since the start. Non-finite scores must not be given to it."""

    def __init__(self, exact_samples: int = 1 << 17) -> None:
        self._scores = np.zeros(exact_samples, np.float32)
        self._labels = np.zeros(exact_samples, np.float32)
        self._kept = 0
        self._counts = np.zeros((2, BINS), np.int64)

    def update(self, scores_S: F32, labels_S: F32) -> None:
        if self._kept + len(scores_S) > len(self._scores) or self._counts.any():
            self._spill()
            self._count(scores_S, labels_S)
            return
        kept = slice(self._kept, self._kept + len(scores_S))
        self._scores[kept], self._labels[kept] = scores_S, labels_S
        self._kept += len(scores_S)

    def value(self) -> tuple[float | None, float]:
        """AUC, and the most that it can be off: 0.0 while it is exact."""
        if not self._counts.any():
            return auc_of(self._scores[: self._kept], self._labels[: self._kept]), 0.0
        negatives, positives = self._counts
        pairs = float(positives.sum()) * float(negatives.sum())
        # Only pairs inside one bin are undecided; each was counted half.
        unsure = 0.5 * float(np.dot(positives.astype(np.float64), negatives))
        return auc_of_bins(positives, negatives), unsure / pairs if pairs else 0.0

    def _spill(self) -> None:
        self._count(self._scores[: self._kept], self._labels[: self._kept])
        self._scores[:], self._labels[:], self._kept = 0, 0, 0

    def _count(self, scores_S: F32, labels_S: F32) -> None:
        where = bins_of(scores_S)
        for label in (0, 1):
            self._counts[label] += np.bincount(where[(labels_S > 0.5) == bool(label)], minlength=BINS)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays of constant shape."""
        kept = np.asarray(self._kept, np.int64)
        return {"scores": self._scores.copy(), "labels": self._labels.copy(), "kept": kept, "bins": self._counts.copy()}

    def load_state(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._scores[:], self._labels[:], self._counts[:] = state["scores"], state["labels"], state["bins"]
        self._kept = int(state["kept"])
