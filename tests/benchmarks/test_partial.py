"""The partial form on a real log: its bars, which are counts and so the same on every machine."""

from __future__ import annotations

from benchmarks.partial import BARS, measure


def test_windows_of_movielens_histories_save_what_they_promise() -> None:
    results = {each["id"].rpartition(".")[2]: each for each in measure()}
    assert list(results) == list(BARS)
    assert all(results[name]["ratio"] >= bar for name, bar in BARS.items())
    assert all(each["context"]["samples"] == 100_000 for each in results.values())
