"""Random feature groups for property tests, with repeats that lie near and far."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from streams.ikjt.jagged import Jagged, offsets_of

IDS = st.one_of(st.integers(0, 3), st.integers(-(2**31), 2**31 - 1))
WIDE_IDS = st.one_of(IDS, st.integers(-(2**63), 2**63 - 1))
DTYPES: list[np.dtype[Any]] = [np.dtype(np.int32), np.dtype(np.int64)]
NUM_SAMPLES = st.integers(0, 12)


@st.composite
def feature_groups(draw: st.DrawFn, num_samples: st.SearchStrategy[int] = NUM_SAMPLES) -> dict[str, Jagged]:
    """One to three features of B rows, drawn from a few distinct rows, so that most of them repeat."""
    rows = draw(num_samples)
    return {f"feature{f}": _feature(draw, rows) for f in range(draw(st.integers(1, 3)))}


def _feature(draw: st.DrawFn, num_samples: int) -> Jagged:
    dtype = draw(st.sampled_from(DTYPES))
    pool = draw(st.lists(st.lists(ids_of(dtype), max_size=6), min_size=1, max_size=4))
    rows = [draw(st.sampled_from(pool)) for _ in range(num_samples)]
    values = np.asarray([value for row in rows for value in row], dtype=dtype)
    offsets = offsets_of(np.asarray([len(row) for row in rows], dtype=np.int64))
    if not draw(st.booleans()):
        return Jagged(values, offsets)
    weights = draw(st.lists(st.sampled_from([0.0, -0.0, 1.0]), min_size=len(values), max_size=len(values)))
    return Jagged(values, offsets, np.asarray(weights, dtype=np.float32))


def ids_of(dtype: np.dtype[Any]) -> st.SearchStrategy[int]:
    """Ids that a feature of this dtype can hold, up to its ends."""
    return IDS if dtype == np.int32 else WIDE_IDS


@st.composite
def shifting_groups(draw: st.DrawFn, num_samples: st.SearchStrategy[int] = NUM_SAMPLES) -> dict[str, Jagged]:
    """One to three features of B rows that are windows of one short log, weights included: histories."""
    size = draw(num_samples)
    num_events = draw(st.integers(0, 12))
    place = st.integers(0, num_events)
    windows = [sorted((draw(place), draw(place))) for _ in range(size)]
    if draw(st.booleans()):
        windows.sort()  # as time goes by; otherwise anyhow
    places = np.asarray([k for start, end in windows for k in range(start, end)], dtype=np.int64)
    offsets = offsets_of(np.asarray([end - start for start, end in windows], dtype=np.int64))
    features = {}
    for f in range(draw(st.integers(1, 3))):
        dtype = draw(st.sampled_from(DTYPES))
        log = np.asarray(draw(st.lists(ids_of(dtype), min_size=num_events, max_size=num_events)), dtype=dtype)
        weights = None
        if draw(st.booleans()):
            drawn = draw(st.lists(st.sampled_from([0.0, -0.0, 1.0]), min_size=num_events, max_size=num_events))
            weights = np.asarray(drawn, dtype=np.float32)[places]
        features[f"feature{f}"] = Jagged(log[places], offsets, weights)
    return features


@st.composite
def dense_columns(draw: st.DrawFn, num_samples: int) -> npt.NDArray[np.float32] | None:
    """[B, K] floats that repeat, or none."""
    num_columns = draw(st.integers(0, 2))
    floats = st.sampled_from([0.0, -0.0, 1.0, float("nan")])
    size = num_samples * num_columns
    flat = draw(st.lists(floats, min_size=size, max_size=size))
    return np.asarray(flat, dtype=np.float32).reshape(num_samples, num_columns) if num_columns else None
