"""Freshness: exact to the millisecond where it matters, bounded in memory for ever."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainer.account import Freshness


def filled(*values_ms: int) -> Freshness:
    freshness = Freshness()
    freshness.add(np.asarray(values_ms, np.int64))
    return freshness


@given(st.lists(st.integers(0, 59_999), min_size=1), st.sampled_from([1, 50, 99, 100]))
def test_below_a_minute_a_percentile_is_the_exact_order_statistic(values_ms: list[int], percent: int) -> None:
    rank = max(1, -(-len(values_ms) * percent // 100))
    assert filled(*values_ms).percentile(percent) == sorted(values_ms)[rank - 1]


def test_above_a_minute_it_is_within_one_per_cent() -> None:
    found = filled(3_600_000).percentile(50)
    assert found is not None
    assert 3_600_000 / 1.01 <= found <= 3_600_000


def test_nothing_seen_is_none_and_a_clock_that_ran_back_is_0() -> None:
    assert Freshness().percentile(99) is None
    assert filled(-5).percentile(99) == 0
