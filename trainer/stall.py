"""Whether labels still come: learning pauses while the positives of a task that should have come do not.

Labels that are made of outcomes all turn negative when the stream of outcomes stops, and a model that goes on would
learn that nobody ever clicks. The rule knows labels only, in the order of the steps, so a restart repeats it: with rate
p of positives so far, n known labels without a positive should have held n·p of them. If that is more than the limit,
the step is scored but not learned. For labels that do not depend on each other it is reached by chance once in
exp(limit) such stretches; those of one session do, so choose it larger than that asks for. The first positive ends it.

What was learned before the limit was reached is not taken back, and what is not learned meanwhile is counted as
skipped: `recd trainer --from-checkpoint` goes back where that matters.

Shape suffixes: B samples, T tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

F64 = npt.NDArray[np.float64]

_ENOUGH: Final = 10
"""Positives of a task before its rate is believed."""


class StallGuard:
    """The count of every task. Pure but for it; never touches a device."""

    def __init__(self, num_tasks: int, limit: float) -> None:
        """`limit` of 0: never pauses, and counts nothing."""
        self._limit = limit
        self._known_T, self._positive_T, self._missed_T = (np.zeros(num_tasks) for _ in range(3))

    def stalled(self, labels_BT: Tensor, known_BT: Tensor) -> list[int]:
        """Tasks whose positives do not come, this step's labels included. What is learned then counts for the rates."""
        if not self._limit:
            return []
        known_T: F64 = known_BT.sum(0).double().numpy()
        positive_T: F64 = ((labels_BT > 0.5) & (known_BT > 0)).sum(0).double().numpy()
        rate_T = np.divide(self._positive_T, self._known_T, out=np.zeros_like(known_T), where=self._known_T > 0)
        self._missed_T = np.where(positive_T > 0, 0.0, self._missed_T + rate_T * known_T)
        believed_T = self._positive_T >= _ENOUGH
        stalled = np.flatnonzero(believed_T & (self._missed_T > self._limit)).tolist()
        if not stalled:
            self._known_T = self._known_T + known_T
            self._positive_T = self._positive_T + positive_T
        return stalled

    def state(self) -> dict[str, Tensor]:
        """Flat names to tensors; none where it never pauses."""
        arrays = {"known": self._known_T, "positive": self._positive_T, "missed": self._missed_T}
        return {name: torch.from_numpy(array) for name, array in arrays.items()} if self._limit else {}

    def load_state(self, stored: Mapping[str, Tensor]) -> None:
        """Go on where `state` was taken; a checkpoint without one begins anew."""
        if self._limit and stored:
            names = ("known", "positive", "missed")
            self._known_T, self._positive_T, self._missed_T = (stored[name].numpy().copy() for name in names)
