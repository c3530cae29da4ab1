"""The cache's benchmark at a small size, and its bound against a search over everything that could be kept."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.trainer.belady import misses_of_belady
from benchmarks.trainer.cache import measure
from benchmarks.trainer.streams import drifting

ROWS = 5


@given(steps=st.lists(st.sets(st.integers(0, ROWS - 1), min_size=1, max_size=3).map(sorted), min_size=1, max_size=7))
def test_no_choice_of_what_is_kept_fetches_less_than_beladys(steps: list[list[int]]) -> None:
    capacity = 2

    @cache
    def least(step: int, kept: frozenset[int]) -> int:
        if step == len(steps):
            return 0
        there = kept | set(steps[step])
        choices = [frozenset(chosen) for size in range(capacity + 1) for chosen in combinations(sorted(there), size)]
        return len(set(steps[step]) - kept) + min(least(step + 1, choice) for choice in choices)

    found = misses_of_belady([np.asarray(step, np.int64) for step in steps], ROWS, capacity)
    assert found.sum() == least(0, frozenset())


def test_every_line_is_made_and_no_cache_is_better_than_the_bound(tmp_path: Path) -> None:
    lines = {line["id"]: line for line in measure(steps=4, pairs=1, num_samples=64, data=tmp_path)}
    assert list(lines) == ["cache.zipf.hit_over_belady", "cache.movielens.hit_over_belady", "cache.cold4x.speed_ratio"]
    for line in list(lines.values())[:2]:
        assert all((rates["hit"] or 0) <= rates["belady"] for rates in line["context"]["by_share_of_rows"].values())
    assert lines["cache.cold4x.speed_ratio"]["ratio"] > 0


def test_one_in_a_hundred_of_the_hot_ids_gives_up_its_place_in_a_thousand_steps() -> None:
    hot, ids = 250_000, drifting(np.random.default_rng(0), 250_000, 1001)
    before = next(ids)[:hot].copy()
    *_, after = ids
    assert 0.009 < np.mean(before != after[:hot]) < 0.014
