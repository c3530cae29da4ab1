"""Values that are left when rows are windows of their session's buffer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import window_values
from tests.streams.ikjt.strategies import feature_groups


def brute_force(rows: list[tuple[object, ...]], session_id: list[int]) -> int:
    """The rule of the module, word by word."""
    seen: set[tuple[object, ...]] = set()
    buffers: dict[int, list[object]] = {}
    for row, session in zip(rows, session_id, strict=True):
        buffer = buffers.setdefault(session, [])
        windows = {tuple(buffer[start : start + len(row)]) for start in range(len(buffer))}
        if row not in seen and row not in windows:
            overlaps = [k for k in range(len(row)) if tuple(buffer[len(buffer) - k :]) == row[:k] and k <= len(buffer)]
            buffer += row[max(overlaps) :] if row else ()
        seen.add(row)
    return sum(len(buffer) for buffer in buffers.values())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_rows_in_any_sessions_equal_the_brute_force(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=12))
    sessions = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    measured = window_values(Jagged.from_lists(rows), np.asarray(sessions, dtype=np.uint64))
    assert measured == brute_force([tuple(row) for row in rows], sessions)


@settings(max_examples=100, deadline=None)
@given(feature_groups(), st.data())
def test_it_is_never_above_the_exact_form(features: dict[str, Jagged], data: st.DataObject) -> None:
    ikjt = deduplicate("g", features)
    size = ikjt.num_samples
    sessions = data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    assert window_values(ikjt, np.asarray(sessions, dtype=np.uint64)) <= ikjt.num_values


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_features_that_shift_together_share_their_windows(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=5), max_size=8))
    sessions = data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows)))
    features = {key: Jagged.from_lists([[pair[f] for pair in row] for row in rows]) for f, key in enumerate("ab")}
    measured = window_values(deduplicate("g", features), np.asarray(sessions, dtype=np.uint64))
    assert measured == 2 * brute_force([tuple(row) for row in rows], sessions)


def test_a_history_that_shifts_by_one_costs_one_value_a_sample() -> None:
    clicks = list(range(1000))
    rows = Jagged.from_lists([clicks[b : b + 50] for b in range(200)])
    assert window_values(rows, np.zeros(200, dtype=np.uint64)) == 50 + 199
    assert deduplicate("g", {"a": rows}).num_values == 200 * 50


def test_a_history_that_grows_is_stored_once() -> None:
    rows = Jagged.from_lists([list(range(b)) for b in range(20)])
    assert window_values(rows, np.zeros(20, dtype=np.uint64)) == 19


def test_sessions_do_not_share_windows() -> None:
    rows = Jagged.from_lists([[1, 2, 3], [2, 3, 4]])
    assert window_values(rows, np.asarray([5, 5], dtype=np.uint64)) == 4
    assert window_values(rows, np.asarray([5, 6], dtype=np.uint64)) == 6


def test_features_of_different_lengths_fall_back_to_the_exact_form() -> None:
    features = {"a": Jagged.from_lists([[1, 2], [2, 3]]), "b": Jagged.from_lists([[1], [1]])}
    ikjt = deduplicate("g", features)
    assert window_values(ikjt, np.zeros(2, dtype=np.uint64)) == ikjt.num_values


def test_values_that_agree_with_other_weights_are_not_the_same() -> None:
    offsets = np.asarray([0, 2, 4], dtype=np.int64)
    values = np.asarray([1, 2, 2, 3])
    weights = np.asarray([1, 1, 5, 1], dtype=np.float32)
    assert window_values(Jagged(values, offsets, weights), np.zeros(2, dtype=np.uint64)) == 4
    assert window_values(Jagged(values, offsets), np.zeros(2, dtype=np.uint64)) == 3


def test_an_empty_batch_has_no_values() -> None:
    assert window_values(Jagged.from_lists([]), np.zeros(0, dtype=np.uint64)) == 0
    assert window_values(Jagged.from_lists([[], []]), np.zeros(2, dtype=np.uint64)) == 0


def test_a_session_id_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="1 session ids for 2 samples"):
        window_values(Jagged.from_lists([[1], [2]]), np.zeros(1, dtype=np.uint64))
