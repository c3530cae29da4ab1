"""Random feature groups for property tests, with repeats that lie near and far."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from streams.ikjt.jagged import Jagged, offsets_of

IDS = st.one_of(st.integers(0, 3), st.integers(-(2**31), 2**31 - 1))
NUM_SAMPLES = st.integers(0, 12)


@st.composite
def feature_groups(draw: st.DrawFn, num_samples: st.SearchStrategy[int] = NUM_SAMPLES) -> dict[str, Jagged]:
    """One to three features of B rows, drawn from a few distinct rows, so that most of them repeat."""
    rows = draw(num_samples)
    return {f"feature{f}": _feature(draw, rows) for f in range(draw(st.integers(1, 3)))}


def _feature(draw: st.DrawFn, num_samples: int) -> Jagged:
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    pool = draw(st.lists(st.lists(IDS, max_size=6), min_size=1, max_size=4))
    rows = [draw(st.sampled_from(pool)) for _ in range(num_samples)]
    values = np.asarray([value for row in rows for value in row], dtype=dtype)
    offsets = offsets_of(np.asarray([len(row) for row in rows], dtype=np.int64))
    if not draw(st.booleans()):
        return Jagged(values, offsets)
    weights = draw(st.lists(st.sampled_from([0.0, -0.0, 1.0]), min_size=len(values), max_size=len(values)))
    return Jagged(values, offsets, np.asarray(weights, dtype=np.float32))
