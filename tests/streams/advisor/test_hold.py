"""Hold times form the batches they say, and the model predicts how many samples of a session they hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.advisor.hold import SESSION, fill_ms, form, modelled, next_fit
from streams.advisor.neighbours import Neighbours
from tests.streams.advisor.streams import Drawn, chosen, drawn, of_sessions

ONE_EACH = {"f": [[1]] * 6}
TWO_SESSIONS = [[0, 2, 12], [1, 3, 13]]


def test_without_a_hold_batches_are_in_time_order() -> None:
    formed = form(of_sessions(TWO_SESSIONS, ONE_EACH), 0, 4)
    assert formed.order.tolist() == [0, 3, 1, 4, 2, 5]
    assert formed.batch.tolist() == [0, 0, 0, 0, 1, 1]
    assert formed.wait_ms.tolist() == [3, 2, 1, 0, 1, 0]
    assert formed.samples_per_session == 6 / 4


def test_a_window_clusters_what_a_session_emits_in_it() -> None:
    formed = form(of_sessions(TWO_SESSIONS, ONE_EACH), 10, 2)
    assert formed.order.tolist() == [0, 1, 3, 4, 2, 5]
    assert formed.batch.tolist() == [0, 0, 1, 1, 2, 2]
    assert formed.wait_ms.tolist() == [10, 8, 9, 7, 8, 7]  # until their window ends at 10, or at 20


def test_whole_sessions_are_what_the_sessionizer_packed() -> None:
    sample = of_sessions(TWO_SESSIONS, ONE_EACH)
    formed = form(sample, SESSION, 2)
    assert formed.batch.tolist() == sample.batch.tolist()
    assert formed.samples_per_session == 3.0


def plainly(sizes: list[int], limit: int) -> list[int]:
    """Next fit, sample by sample, as the packer's docstring says it."""
    batches: list[list[int]] = [[]]
    for number, size in enumerate(sizes):
        if batches[-1] and len(batches[-1]) + size > limit:
            batches.append([])
        for _ in range(size):
            if len(batches[-1]) == limit:
                batches.append([])
            batches[-1].append(number)
    return [batch for batch, held in enumerate(batches) for _ in held]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 6))
def test_packing_is_next_fit(sizes: list[int], limit: int) -> None:
    starts = np.cumsum([0, *sizes])
    assert next_fit(starts, np.zeros(len(sizes), np.int32), limit).tolist() == plainly(sizes, limit)


def test_partitions_never_share_a_batch() -> None:
    found = next_fit(np.array([0, 1, 2, 3]), np.array([0, 0, 1], np.int32), 8)
    assert found.tolist() == [0, 0, 1]


@pytest.mark.parametrize(("seconds", "expected"), [(10, 1.58), (60, 6.0), (160, 16.0)])
def test_long_sessions_follow_the_known_law(seconds: int, expected: float) -> None:
    """S = rW / (1 - exp(-rW)) at 0.1 samples a second."""
    laws = Drawn(sessions=200, samples_per_session=2_000, spread_ms=1, redrawn={"f": 0.5}, length=1)
    everything = drawn(laws)
    sample = chosen(everything, np.flatnonzero(everything.time_ms < 4_000_000))  # while most sessions still run
    assert modelled(sample, Neighbours.of(sample), 1000 * seconds, 32) == pytest.approx(expected, rel=0.05)
    assert form(sample, 1000 * seconds, 32).samples_per_session == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("hold_ms", [20_000, 60_000, 300_000, 3_600_000])
def test_the_model_of_finite_sessions_agrees_with_batches_that_are_formed(hold_ms: int) -> None:
    sample = drawn(Drawn(sessions=2_000, redrawn={"f": 0.5}, length=1))
    assert fill_ms(sample, 64) < hold_ms
    model = modelled(sample, Neighbours.of(sample), hold_ms, 64)
    assert form(sample, hold_ms, 64).samples_per_session == pytest.approx(model, rel=0.06)


def test_a_batch_that_fills_slowly_is_a_hold_time_by_itself() -> None:
    sample = drawn(Drawn(sessions=100, spread_ms=36_000_000, redrawn={"f": 0.5}, length=1))
    slow = form(sample, 0, 256).samples_per_session
    assert modelled(sample, Neighbours.of(sample), 0, 256) == pytest.approx(slow, rel=0.1)
    assert slow > 0.8 * Neighbours.of(sample).samples_per_session
