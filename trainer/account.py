"""The trainer's account: what became of every sample that was emitted, and how fresh it was. Pure.

emitted = trained + skipped + what still waits, and the same for corrections, apart. Duplicates are mini-batches that
came twice and were dropped.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt


class Account(msgspec.Struct, kw_only=True):
    """Totals of the lineage: in every checkpoint, so that a restart neither loses nor repeats them."""

    samples: int = 0
    """Samples the model has learned from."""
    skipped: int = 0
    """Samples of steps that changed nothing."""
    corrected: int = 0
    """Corrections that the model has learned from: copies of samples that are counted above already."""
    skipped_corrections: int = 0
    """Corrections of steps that changed nothing."""
    batches: int = 0
    """Mini-batches of both."""
    sessions: int = 0
    """Sessions and parts of sessions in them."""
    steps: int = 0
    """Steps that learned."""
    skipped_steps: int = 0
    ids: int = 0
    """Ids looked up."""
    ids_expanded: int = 0
    """Ids that a trainer without deduplication would have looked up."""
    wire_bytes: int = 0
    """Size of the mini-batches as they came."""


class Freshness:
    """Distribution of milliseconds since append: exact to the millisecond up to a minute, then to one per cent."""

    _EXACT_MS = 60_000
    _RATIO = math.log(1.01)

    def __init__(self) -> None:
        self._exact = np.zeros(self._EXACT_MS, np.int64)
        self._longer: dict[int, int] = {}
        self.count = 0

    def add(self, values_ms: npt.NDArray[np.int64]) -> None:
        """Record; a clock that ran back reads as 0."""
        values_ms = np.maximum(values_ms, 0)
        short = values_ms[values_ms < self._EXACT_MS]
        np.add.at(self._exact, short, 1)
        for value in values_ms[values_ms >= self._EXACT_MS]:
            bucket = int(math.log(int(value) / self._EXACT_MS) / self._RATIO)
            self._longer[bucket] = self._longer.get(bucket, 0) + 1
        self.count += len(values_ms)

    def percentile(self, percent: float) -> int | None:
        """Smallest recorded time that this share of the samples stayed within; None without samples."""
        if not self.count:
            return None
        rank = max(1, math.ceil(self.count * percent / 100))
        cumulative = np.cumsum(self._exact)
        if rank <= cumulative[-1]:
            return int(np.searchsorted(cumulative, rank))
        seen = int(cumulative[-1])
        for bucket in sorted(self._longer):
            seen += self._longer[bucket]
            if seen >= rank:
                return int(self._EXACT_MS * math.exp(bucket * self._RATIO))
        raise AssertionError("ranks end within the count")
