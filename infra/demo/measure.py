"""What a finished run's mini-batches say: factors, bytes, and what logistic regression learns from them.

Owns: figures that follow from the mini-batches alone. Never: reads Kafka or trains the model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from infra.demo.readback import Stored, lineage_of
from streams import wire
from streams.ikjt.partial import window_values
from streams.ikjt.windows import Group
from streams.minibatch import MiniBatch
from trainer.baseline import OnlineLogisticRegression

F64 = npt.NDArray[np.float64]
RATES: Final = (0.2, 0.4, 0.8)
"""Bracket the best one on MovieLens, so that the comparison is with a regression at its best."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measured:
    """Figures of all mini-batches together, and series in the order of training."""

    batches: int
    samples: int
    sessions: int
    distinct_samples: int
    """Different (partition, offset) among the samples; equal to `samples` if each was trained once."""
    wire_bytes: int
    kjt_bytes: int
    """The same mini-batches without deduplication, same codec and level."""
    ids_bytes: tuple[int, int]
    """Ids without and with deduplication, 8 bytes each, as they lie in memory."""
    dedup_factor: dict[str, float]
    partial_factor: dict[str, float]
    """The same if rows that are windows of their session's buffer were stored once."""
    factors: dict[str, F64]
    """Dedup factor of each mini-batch, by group."""
    rate: float
    """Learning rate of the best logistic regression."""
    ne_logistic_regression: float
    ne_curve: tuple[F64, F64]
    """Samples seen, and lifetime NE of the logistic regression up to there."""


def measure(steps: Sequence[Sequence[Stored]], features: Sequence[str]) -> Measured:
    """Measure mini-batches in the order of training; `features` are what the logistic regression may see."""
    stored = [each for step in steps for each in step]
    batches = [each.batch for each in stored]
    lineage = lineage_of(steps)
    rate, ne, curve = _logistic_regression(batches, features)
    return Measured(
        batches=len(batches),
        samples=len(lineage),
        sessions=sum(batch.num_sessions for batch in batches),
        distinct_samples=len(set(lineage)),
        wire_bytes=sum(each.num_bytes for each in stored),
        kjt_bytes=sum(wire.kjt_bytes(batch) for batch in batches),
        ids_bytes=(
            sum(8 * group.num_values_expanded for batch in batches for group in batch.groups),
            sum(8 * group.num_values for batch in batches for group in batch.groups),
        ),
        dedup_factor=_ratios(batches, lambda _, group: group.num_values),
        partial_factor=_ratios(batches, lambda batch, group: window_values(group, batch.lineage.session_id)),
        factors=_series(batches),
        rate=rate,
        ne_logistic_regression=ne,
        ne_curve=curve,
    )


def _ratios(batches: Sequence[MiniBatch], values_after: Callable[[MiniBatch, Group], int]) -> dict[str, float]:
    """Values before / after by group, over all mini-batches: a ratio of sums, not a mean of ratios."""
    before: dict[str, int] = defaultdict(int)
    after: dict[str, int] = defaultdict(int)
    for batch in batches:
        for group in batch.groups:
            before[group.group] += group.num_values_expanded
            after[group.group] += values_after(batch, group)
    return {name: before[name] / max(1, after[name]) for name in before}


def _series(batches: Sequence[MiniBatch]) -> dict[str, F64]:
    series: dict[str, list[float]] = defaultdict(list)
    for batch in batches:
        for group in batch.groups:
            series[group.group].append(group.dedup_factor)
    return {name: np.asarray(values) for name, values in series.items()}


def _logistic_regression(batches: Sequence[MiniBatch], features: Sequence[str]) -> tuple[float, float, tuple[F64, F64]]:
    """The best learning rate, its lifetime NE, and its NE as samples went by."""
    labels = np.concatenate([batch.labels[:, 0] for batch in batches]).astype(np.float64)
    ends = np.cumsum([len(batch) for batch in batches])
    best: tuple[float, float, tuple[F64, F64]] | None = None
    for rate in RATES:
        model = OnlineLogisticRegression(features, rate)
        logits = np.concatenate([model.run(batch) for batch in batches])
        curve = _lifetime_ne(logits, labels)[ends - 1]
        if best is None or curve[-1] < best[1]:
            best = rate, float(curve[-1]), (ends.astype(np.float64), curve)
    assert best is not None, "there is at least one rate"
    return best


def _lifetime_ne(logits: F64, labels: F64) -> F64:
    """[B] NE over the samples up to each one; NaN while all labels are equal."""
    seen = np.arange(1, len(labels) + 1)
    loss = np.cumsum(np.logaddexp(0, logits) - labels * logits) / seen
    base = np.cumsum(labels) / seen
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -(base * np.log(base) + (1 - base) * np.log1p(-base))
        return np.asarray(loss / entropy)
