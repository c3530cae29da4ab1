"""Measures: what the entries that a sample sees come to, as dense columns: how many there are, how old the newest is.

Owns their values, all of them in {-1} and [0, 44): 64-bit integers have no larger logarithm. Point in time like the
histories: a sample sees what lies strictly before it. Never reads items.

Logarithms, because these columns cannot be scaled upstream and counts and ages spread over many powers of ten. They
are computed by additions, multiplications and divisions alone, which are the same bits on every machine: those of a
platform's `log1p` are not, and replays are compared by content hash.

Shape suffixes: B samples, H histories, M measures, K dense columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from sessionizer.history import NONE, Histories
from streams.events.event import EventBatch

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

NOTHING_SEEN: Final = np.float32(-1)
"""Recency where there is no entry: below that of any."""
_LN_2: Final = 0.6931471805599453
_SQRT_HALF: Final = 0.7071067811865476
_TERMS: Final = 12
"""Of the series of `log1p`: the rest is below 1e-19 of what it adds up to, where 64 bits end at 1e-16."""


def with_measures(events: EventBatch, histories: Histories, ends_BH: I64, tips_BH: I32) -> EventBatch:
    """B events with the declared measures as further dense columns, [B, K + M]; see `Histories.read`."""
    columns = []
    for h, history in enumerate(histories.declared):
        if history.count is not None:
            columns.append(log1p(ends_BH[:, h].astype(np.float64)).astype(np.float32))
        if history.recency is not None:
            columns.append(_recency(events.event_time_ms, histories.entries["time"], tips_BH[:, h]))
    return replace(events, dense=np.column_stack([events.dense, *columns])) if columns else events


def _recency(time_ms_B: I64, entered_ms: I64, tips_B: I32) -> F32:
    """[B]."""
    seen = tips_B != NONE
    recency_B = np.full(len(tips_B), NOTHING_SEEN)
    age_ms = time_ms_B[seen] - entered_ms[tips_B[seen]]
    recency_B[seen] = log1p(age_ms / 1000)
    return recency_B


def log1p(x: F64) -> F64:
    """ln(1 + x) for 0 <= x < 2**64, off by less than 1e-12 of it, if x is 0 or at least 0.001.

    1 + x = m 2**e with m around 1, and ln m = 2 artanh s = 2 (s + s**3 / 3 + s**5 / 5 ...) for s = (m - 1) / (m + 1).
    """
    m, e = np.frexp(1 + x)
    low = m < _SQRT_HALF
    m, e = np.where(low, 2 * m, m), e - low
    s = (m - 1) / (m + 1)
    square = s * s
    series = np.zeros_like(s)
    for k in range(_TERMS - 1, -1, -1):
        series = series * square + 1 / (2 * k + 1)
    return np.asarray(e * _LN_2 + 2 * s * series)
