"""Online logistic regression on the same batches in the same order: what the model has to beat.

Owns one weight per user id, item id or other sparse id, and a bias, each with its own Adagrad. Pure numpy;
predicts before it learns, like the trainer.

Shape suffixes: B samples, V ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.ikjt import Transform, transform_rows
from streams.ikjt.jagged import Jagged
from streams.minibatch import MiniBatch

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Column:
    """Weights and squared gradients of one feature, grown as new ids appear; place 0 is the bias's."""

    place_of: dict[int, int] = field(default_factory=dict)
    weight: F64 = field(default_factory=lambda: np.zeros(1024))
    squared: F64 = field(default_factory=lambda: np.zeros(1024))

    def places(self, ids_V: npt.NDArray[Any]) -> I64:
        """Where each id's weight is kept; a new id gets a place of its own, so ids never collide."""
        found = (self.place_of.setdefault(int(i), len(self.place_of)) for i in ids_V)
        places = np.fromiter(found, np.int64, len(ids_V))
        while len(self.place_of) > len(self.weight):
            self.weight = np.concatenate([self.weight, np.zeros_like(self.weight)])
            self.squared = np.concatenate([self.squared, np.zeros_like(self.squared)])
        return places

    def learn(self, places_V: I64, gradient_V: F64, rate: float) -> None:
        """One Adagrad step; the gradient of an id that occurs several times is summed first."""
        touched, inverse = np.unique(places_V, return_inverse=True)
        gradient = np.bincount(inverse, gradient_V, minlength=len(touched))
        self.squared[touched] += gradient**2
        self.weight[touched] -= rate * gradient / (np.sqrt(self.squared[touched]) + 1e-8)


class OnlineLogisticRegression:
    """Logistic regression of one task over single-id features."""

    def __init__(
        self,
        features: Sequence[str],
        learning_rate: float,
        task: int = 0,
        transforms: Mapping[str, Sequence[Transform]] = MappingProxyType({}),
    ) -> None:
        """`transforms` are those of the model's features, without the mapping into tables."""
        self._rate = learning_rate
        self._task = task
        self._transforms = transforms
        self._columns = {name: _Column() for name in features}
        self._bias = _Column(place_of={0: 0})

    def run(self, batch: MiniBatch) -> F64:
        """[B] logits from before the update; then learns from the batch's mean loss."""
        rows = {name: transform_rows(_samples(batch, name), self._transforms.get(name, ())) for name in self._columns}
        places = {name: self._columns[name].places(jagged.values) for name, jagged in rows.items()}
        logits_B = np.full(len(batch), self._bias.weight[0])
        for name, jagged in rows.items():
            sums = np.concatenate([[0.0], np.cumsum(self._columns[name].weight[places[name]])])
            logits_B += np.diff(sums[jagged.offsets])
        gradient_B = (_sigmoid(logits_B) - batch.labels[:, self._task]) / max(1, len(batch))
        for name, jagged in rows.items():
            self._columns[name].learn(places[name], np.repeat(gradient_B, jagged.lengths), self._rate)
        self._bias.learn(np.zeros(len(batch), np.int64), gradient_B, self._rate)
        return logits_B


def best_of(batches: Sequence[MiniBatch], features: Sequence[str], rates: Iterable[float]) -> dict[float, float]:
    """Learning rate to lifetime normalized entropy of one pass each."""
    labels = np.concatenate([batch.labels[:, 0] for batch in batches]).astype(np.float64)
    result = {}
    for rate in rates:
        model = OnlineLogisticRegression(features, rate)
        logits = np.concatenate([model.run(batch) for batch in batches])
        result[rate] = float(np.mean(np.logaddexp(0, logits) - labels * logits)) / _entropy(float(labels.mean()))
    return result


def _samples(batch: MiniBatch, feature: str) -> Jagged:
    for group in batch.groups:
        if feature in group.features:
            return group.features[feature].take(group.inverse)
    raise KeyError(f"no group of the batch holds feature {feature}")


def _sigmoid(x: F64) -> F64:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _entropy(rate: float) -> float:
    return float(-(rate * np.log(rate) + (1 - rate) * np.log1p(-rate)))
