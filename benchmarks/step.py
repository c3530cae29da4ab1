"""How much faster a training step is on deduplicated batches: MovieLens-100K, the demo's model.

    python -m benchmarks.step [--threads 1] [--batches 200]

The same mini-batches, as IKJT and expanded to plain KJT rows, go through the same model, tables, optimizer and
threads; both are turned into tensors beforehand and run in turns, A B A B. The compared figure is the median of the
paired ratios of CPU time (wall time stands beside it), with a bootstrap interval of 95 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.movielens import CACHE, log, mini_batches
from infra.clock import Clock
from infra.config import from_values
from infra.demo.movielens import prepared
from infra.presets import movielens

SKIP: Final = 100
"""Batches of the beginning, when histories are still short."""
WARM_UP: Final = 5
SEED: Final = 0
F64 = npt.NDArray[np.float64]


def timed(call: Callable[[], object], clock: Clock) -> tuple[float, float]:
    """CPU and wall milliseconds of one call."""
    cpu, wall = clock.process_ns(), clock.monotonic_ns()
    call()
    return (clock.process_ns() - cpu) / 1e6, (clock.monotonic_ns() - wall) / 1e6


def interval(ratios: F64) -> list[float]:
    """95 % bootstrap interval of the median."""
    generator = np.random.default_rng(SEED)
    medians = np.median(generator.choice(ratios, (2000, len(ratios))), axis=1)
    return [round(float(q), 3) for q in np.quantile(medians, [0.025, 0.975])]


def measure(threads: int, num_batches: int) -> dict[str, Any]:
    """One result: plain step time / deduplicated step time."""
    import torch

    from trainer.model import build_model
    from trainer.step import Step
    from trainer.tensors import to_tensors

    torch.set_num_threads(threads)
    config, clock = from_values(movielens()), Clock()
    batches = mini_batches(config, list(log(prepared(CACHE))), gap_ms=config.session.gap_ms)
    batches = [batch for batch in batches[SKIP:] if len(batch) > config.batch.samples // 2][: num_batches + WARM_UP]
    steps = [Step(build_model(config.schema, config.model, config.optimizer, SEED), config.optimizer) for _ in range(2)]
    times = []
    for batch in batches:
        ours = to_tensors([batch], config.schema, config.model)
        plain = to_tensors([batch], config.schema, config.model, deduplicated=False)
        times.append([timed(partial(steps[0].run, ours), clock), timed(partial(steps[1].run, plain), clock)])
    found = np.asarray(times[WARM_UP:])  # [pairs, (ours, plain), (cpu, wall)]
    ratios = found[:, 1] / found[:, 0]
    history = [group.dedup_factor for batch in batches[WARM_UP:] for group in batch.groups if group.group == "history"]
    return {
        "id": "trainer.movielens.step_ratio",
        "value": round(float(np.median(found[:, 0, 0])), 3),
        "unit": "ms of CPU a step",
        "baseline": "the same step on expanded rows",
        "baseline_value": round(float(np.median(found[:, 1, 0])), 3),
        "ratio": round(float(np.median(ratios[:, 0])), 3),
        "median_of": len(ratios),
        "spread": interval(ratios[:, 0]),
        "context": {
            "wall_ratio": round(float(np.median(ratios[:, 1])), 3),
            "wall_spread": interval(ratios[:, 1]),
            "threads": threads,
            "batch_samples": config.batch.samples,
            "history_factor": round(float(np.median(history)), 3),
            "seed": SEED,
            "torch": torch.__version__,
        },
    }


def main() -> None:
    """Print one result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, default=200)
    options = parser.parse_args()
    sys.stdout.write(json.dumps(measure(options.threads, options.batches)) + "\n")


if __name__ == "__main__":
    main()
