"""The training benchmark at a small size: every line is made, and what is no matter of time holds."""

from __future__ import annotations

from benchmarks.trainer.run import measure
from benchmarks.trainer.streams import ragged


def test_every_line_is_made_and_memory_falls_with_the_factor() -> None:
    results = {line["id"]: line for line in measure(rounds=1, num_samples=208, rows=500)}
    assert {name.split(".")[1] for name in results} == {"rm1", "pooled", "rm2", "rm3", "windows", "target_attention"}
    assert all(line["ratio"] > 0 for line in results.values())
    for factor in (4, 8, 16):
        assert results[f"trainer.rm1.factor{factor}.user_memory_ratio"]["context"]["of_factor"] >= 0.8
    plain, ours = (results["trainer.rm1.factor8.ratio"]["context"][key] for key in ("ids_expanded", "ids"))
    assert plain > 4 * ours


def test_ragged_sessions_hold_the_samples_that_were_asked_for() -> None:
    sizes = ragged(8, 40, 2048, seed=0)
    assert sizes.sum() == 2048
    assert 1 <= sizes.min() < 8 < sizes.max() <= 40
