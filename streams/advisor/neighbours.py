"""Each sample beside the one before it in its session: what the formula of the gain is made of.

Owns S, d and the rate:

    S   samples a session
    d   how often nothing of a feature (or of all features of a group) changed from one sample to the next
    r   samples a millisecond, within sessions

Shape suffixes: N samples, P pairs of neighbours, F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from streams.advisor.sample import I64, Sample

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Neighbours:
    """P pairs of samples that follow each other in a session."""

    before: I64
    """[P]."""
    after: I64
    """[P]."""
    samples_per_session: float
    """S."""
    rate_per_ms: float
    """r; 0 where no session has two samples, infinite where all of them share their milliseconds."""

    @classmethod
    def of(cls, sample: Sample) -> Self:
        """All pairs of a sample."""
        order = np.argsort(sample.session, kind="stable")
        same = sample.session[order[1:]] == sample.session[order[:-1]]
        before, after = order[:-1][same], order[1:][same]
        apart_ms = int((sample.time_ms[after] - sample.time_ms[before]).sum())
        rate = len(before) / apart_ms if apart_ms else np.inf
        return cls(
            before=before,
            after=after,
            samples_per_session=len(sample) / max(1, sample.num_sessions),
            rate_per_ms=rate if len(before) else 0.0,
        )

    def changed(self, sample: Sample, feature: str) -> Bools:
        """[P], whether the row of a feature is another one than before."""
        index = sample.columns[feature].index
        return np.asarray(index[self.before] != index[self.after])


def factor_of(samples_per_session: float, unchanged: float) -> float:
    """The dedup factor that follows: 1 / (1 - (S - 1)/S · d)."""
    left = 1 - (samples_per_session - 1) / samples_per_session * unchanged
    return 1 / max(left, 1e-12)


def partial_factor_of(samples_per_session: float, unchanged: float, mean_length: float) -> float:
    """The same with windows, if every change drops the oldest id and appends one: S·l / (l + (S - 1)·(1 - d))."""
    new = (samples_per_session - 1) * (1 - unchanged)
    return samples_per_session * mean_length / (mean_length + new) if mean_length else 1.0
