"""Small mini-batches for tests: fixed ones, and random ones with groups of either form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import deduplicate_windows
from streams.ikjt.windows import Group
from streams.minibatch import Lineage, MiniBatch
from tests.streams.ikjt.strategies import dense_columns, feature_groups, shifting_groups

INT64 = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
UINT64 = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))


def fixed_batch() -> MiniBatch:
    """Five samples of two sessions: two groups, a weighted feature, an empty row, 32-bit ids."""
    weighted = Jagged(
        np.asarray([11, 12, 11, 12, 11, 12, 13], dtype=np.int32),
        np.asarray([0, 2, 4, 6, 6, 7], dtype=np.int64),
        np.asarray([1.0, 0.5, 1.0, 0.5, 1.0, 0.5, 2.0], dtype=np.float32),
    )
    history = Jagged.from_lists([[70_001, 70_002], [70_001, 70_002], [70_001, 70_002], [], [-5]])
    item = Jagged.from_lists([[1], [2], [3], [4], [2**40]])
    return MiniBatch(
        partition=3,
        sequence=41,
        watermark_ms=1_700_000_009_000,
        fingerprint=0xFEDCBA9876543210,
        lineage=Lineage(
            offset=np.asarray([100, 102, 105, 101, 103], dtype=np.int64),
            event_id=np.asarray([2**64 - 1, 5, 6, 7, 8], dtype=np.uint64),
            session_id=np.asarray([9, 9, 9, 2**63, 2**63], dtype=np.uint64),
            event_time_ms=np.asarray([0, 20, 500, 10, 30], dtype=np.int64) + 1_700_000_000_000,
            appended_ms=np.asarray([-1, -1, -1, -1, -1], dtype=np.int64),
        ),
        labels=np.asarray([[0], [1], [0], [0], [1]], dtype=np.float32),
        dense=np.asarray([[0.5, -1], [0.5, 2], [0.5, 0], [0.25, 0], [0.25, 1]], dtype=np.float32),
        groups=(
            deduplicate("user", {"history": history, "tags": weighted}),
            deduplicate("item", {"item": item}),
        ),
    )


def fixed_partial_batch() -> MiniBatch:
    """The same samples with two more groups: a weighted partial history, and one with dense columns."""
    offsets = np.asarray([0, 2, 5, 8, 8, 9], dtype=np.int64)
    clicks = np.asarray([501, 502, 501, 502, 503, 502, 503, 504, -7], dtype=np.int64)
    strength = np.asarray([1.0, 2.0, 1.0, 2.0, 0.5, 2.0, 0.5, -0.0, 3.0], dtype=np.float32)
    clicked_at = Jagged((clicks - 500).astype(np.int32), offsets)
    age = np.asarray([[30, 0.5], [30, 0.5], [30, 0.5], [41, -0.0], [41, -0.0]], dtype=np.float32)
    batch = fixed_batch()
    history = {"clicks": Jagged(clicks, offsets, strength), "clicked_at": clicked_at}
    city = Jagged.from_lists([[8], [8], [8], [9], [9]])
    groups = (
        deduplicate_windows("clicks", history, batch.lineage.session_id),
        deduplicate("profile", {"city": city}, age, ("age", "income")),
    )
    return replace(batch, groups=batch.groups + groups)


@st.composite
def mini_batches(draw: st.DrawFn) -> MiniBatch:
    """Any valid mini-batch of a few samples."""
    num_samples = draw(st.integers(0, 9))
    session_id = _column(draw, UINT64, num_samples, np.dtype(np.uint64))
    return MiniBatch(
        partition=draw(st.integers(0, 2**31 - 1)),
        sequence=draw(st.integers(0, 2**63 - 1)),
        watermark_ms=draw(INT64),
        fingerprint=draw(UINT64),
        lineage=Lineage(
            offset=_column(draw, INT64, num_samples, np.dtype(np.int64)),
            event_id=_column(draw, UINT64, num_samples, np.dtype(np.uint64)),
            session_id=session_id,
            event_time_ms=_column(draw, INT64, num_samples, np.dtype(np.int64)),
            appended_ms=_column(draw, INT64, num_samples, np.dtype(np.int64)),
        ),
        labels=_matrix(draw, num_samples),
        dense=_matrix(draw, num_samples),
        groups=tuple(_group(draw, f"group{g}", session_id) for g in range(draw(st.integers(0, 3)))),
        negative_rate=draw(st.sampled_from([1.0, 1.0, 0.1, 2.0**-60])),
        stage=draw(st.none() | st.just(_column(draw, st.integers(0, 2), num_samples, np.dtype(np.uint8)))),
    )


def _column(draw: st.DrawFn, values: st.SearchStrategy[int], size: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.asarray(draw(st.lists(values, min_size=size, max_size=size)), dtype=dtype)


def _matrix(draw: st.DrawFn, num_samples: int) -> npt.NDArray[Any]:
    columns = draw(st.integers(0, 3))
    floats = st.sampled_from([0.0, -0.0, 1.0, float("nan"), 1e-30])
    size = num_samples * columns
    flat = draw(st.lists(floats, min_size=size, max_size=size))
    return np.asarray(flat, dtype=np.float32).reshape(num_samples, columns)


def _group(draw: st.DrawFn, name: str, session_id: npt.NDArray[Any]) -> Group:
    """Of any form; with dense columns or without."""
    size = st.just(len(session_id))
    drawn = draw(draw(st.sampled_from([feature_groups(size), shifting_groups(size)])))
    features = {f"{name}.{key}": rows for key, rows in drawn.items()}
    dense = draw(dense_columns(len(session_id)))
    names = () if dense is None else tuple(f"{name}.dense{k}" for k in range(dense.shape[1]))
    if draw(st.booleans()):
        return deduplicate(name, features, dense, names)
    return deduplicate_windows(name, features, session_id, dense, names)
