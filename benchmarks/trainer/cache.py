"""Tables larger than memory: what the hot tier keeps, against what could be kept, and what it costs.

    recd bench cache, or python -m benchmarks.trainer.cache

Hit rates are of distinct rows of a step, against Belady's rule, which knows every later step: nothing that keeps rows
of the past can be better. The stream is rm1-small's at factor 8 with all features in one table of 1,000,000 rows, ids
permuted Zipf 1.05 of which 1 % of the hot ones drift in 1,000 steps. The speed is that of whole training steps on this
stream with a quarter of the rows in memory, against the same steps with all of them there, in blocks that take turns;
what is still under way at the end of a block is waited for. Rows are read past the page cache.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from benchmarks import kuairand
from benchmarks.movielens import CACHE, log, mini_batches
from benchmarks.rm import NUM_IDS
from benchmarks.trainer.belady import misses_of_belady
from benchmarks.trainer.run import SEED, THREADS, interval
from benchmarks.trainer.streams import BATCH, OPTIMIZER, SMALL, drifting, even, mini_batch, model_of, schema_of
from benchmarks.turns import Result, show
from infra.clock import Clock
from infra.config import from_values
from infra.demo.movielens import prepared
from infra.presets import movielens
from streams.minibatch import MiniBatch
from trainer.cache.cold_file import ColdFile
from trainer.cache.cold_rows import ColdRows, num_places
from trainer.cache.directory import Directory
from trainer.cache.tables import CachedTables
from trainer.config import TableConfig
from trainer.model import RecModel, build_model
from trainer.step import Step
from trainer.tables import init_rows
from trainer.tensors import StepBatch, to_tensors

SHARES: Final = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Of all rows, those that are hot."""
SHARE: Final = 1 / 4
FACTOR: Final = 8
LONG: Final = 200
"""Steps of the stream of which hit rates are told; those of its second half count."""
SMALL_STEP: Final = 32
"""Samples of a step on the real logs, whose 1,682 and 6,704 items are few."""
PAIRS: Final = 15
BLOCK: Final = 5
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
SCHEMA: Final = schema_of(SMALL, shared="ids")
MODEL: Final = replace(model_of(SMALL), tables={"ids": TableConfig(rows=NUM_IDS + 1, mapping="direct")})


def stream(steps: int, num_samples: int) -> Iterator[StepBatch]:
    """The batches of the stream, one step after the other."""
    sizes, hot = even(FACTOR, num_samples), int(SHARE * NUM_IDS)
    for step, ids in enumerate(drifting(np.random.default_rng(SEED), hot, steps)):
        yield to_tensors([mini_batch(SMALL, sizes, step, ids)], SCHEMA, MODEL)


def rows_of_log(batches: Sequence[MiniBatch], features: Sequence[str]) -> tuple[list[I64], int]:
    """Rows of each step where every id of these features has one of its own, and how many there are."""
    of_step = [
        np.concatenate([group.features[key].values for group in batch.groups for key in group.keys if key in features])
        for batch in (replace(each, groups=tuple(group.to_exact() for group in each.groups)) for each in batches)
    ]
    ids, rows = np.unique(np.concatenate(of_step), return_inverse=True)
    cuts = np.cumsum([len(each) for each in of_step])[:-1]
    return [np.unique(part) for part in np.split(rows, cuts)], len(ids)


def measure(
    steps: int = LONG, pairs: int = PAIRS, num_samples: int = BATCH, data: Path | None = None
) -> Iterator[Result]:
    """Every line of `recd bench cache`."""
    torch.set_num_threads(THREADS)
    rows = [batch.uses.rows_X for batch in stream(steps, num_samples)]
    yield hit_rates("cache.zipf.hit_over_belady", rows, NUM_IDS + 1, len(rows) // 2)
    config = from_values(movielens())
    small = replace(config, batch=replace(config.batch, samples=SMALL_STEP))
    batches = mini_batches(small, list(log(prepared(CACHE))), gap_ms=config.session.gap_ms)
    yield hit_rates("cache.movielens.hit_over_belady", *rows_of_log(batches, ("item", "liked")))
    if data is None and "RECD_DATA" in os.environ:
        data = Path(os.environ["RECD_DATA"])
    if data is not None and kuairand.present(data):
        whole = kuairand.Log(data)
        parts = np.split(whole.clustered(), np.arange(SMALL_STEP, len(whole), SMALL_STEP))
        chosen = [whole.batch(part) for part in parts]
        yield hit_rates("cache.kuairand.hit_over_belady", *rows_of_log(chosen, ("item_id", "watched")))
    with tempfile.TemporaryDirectory(dir=".") as directory:
        yield speed(Path(directory), pairs, num_samples, warm=steps // 2)


def hit_rates(name: str, steps: Sequence[I64], num_rows: int, skip: int = 0) -> Result:
    """Of a quarter of the rows; other sizes beside it. The first `skip` steps fill the tier and are not counted."""
    distinct = sum(len(rows) for rows in steps[skip:])
    rates: dict[str, dict[str, float | None]] = {}
    for share in SHARES:
        slots = int(share * num_rows)
        best = 1 - misses_of_belady(steps, num_rows, slots)[skip:].sum() / distinct
        rates[f"{share:g}"] = {"hit": _hit_rate(steps, num_rows, slots, skip), "belady": round(float(best), 4)}
    quarter = rates[f"{SHARE:g}"]
    ratio = round((quarter["hit"] or 0.0) / (quarter["belady"] or 1.0), 3)
    return {
        "id": name,
        "value": quarter["hit"],
        "unit": "of the distinct rows of a step",
        "baseline": "Belady's rule, which knows all later steps",
        "baseline_value": quarter["belady"],
        "ratio": ratio,
        "median_of": 1,
        "spread": [ratio, ratio],
        "context": {
            "by_share_of_rows": rates,
            "rows": num_rows,
            "steps": len(steps) - skip,
            "distinct_rows_a_step": round(distinct / (len(steps) - skip)),
            "seed": SEED,
        },
    }


def _hit_rate(steps: Sequence[I64], num_rows: int, slots: int, skip: int) -> float | None:
    """None where a step uses more rows than there are slots."""
    if max(map(len, steps)) > slots:
        return None
    directory = Directory(num_rows, slots)
    missing = sum([len(directory.admit(rows).missing_M) for rows in steps][skip:])
    return round(1 - missing / sum(map(len, steps[skip:])), 4)


def speed(directory: Path, pairs: int, num_samples: int, warm: int) -> Result:
    """Whole steps with all rows in memory, and with a quarter of them."""
    batches = list(stream(warm + pairs * BLOCK + 1, num_samples))
    memory, tiered, cached = (build_model(SCHEMA, MODEL, OPTIMIZER, SEED) for _ in range(3))
    of: dict[str, tuple[RecModel, CachedTables, ColdFile]] = {}
    for kind, model in (("direct", tiered), ("page cache", cached)):
        cold = ColdFile(directory, num_places(NUM_IDS + 1), MODEL.dim, direct=kind == "direct")
        tables = CachedTables(MODEL.tables, ColdRows(cold, NUM_IDS + 1), int(SHARE * NUM_IDS), OPTIMIZER)
        init_rows(tables, MODEL.tables, SEED)
        model.tables = tables
        of[kind] = model, tables, cold
        for batch in batches[:warm]:
            tables.lookup(batch.ids_V, batch.offsets_N1, batch.uses)
    before = replace(of["direct"][1].counts)
    wall = np.zeros((3, pairs))
    for pair in range(pairs):
        block = batches[warm + pair * BLOCK :][:BLOCK]
        wall[0, pair] = _timed(partial(_train, memory, block))
        ahead = batches[warm + pair * BLOCK :][: BLOCK + 1]
        for arm, kind in ((1, "direct"), (2, "page cache")):
            wall[arm, pair] = _timed(partial(_train_ahead, *of[kind][:2], ahead))
    counts, cold = of["direct"][1].counts, of["direct"][2]
    missing, distinct = counts.missing - before.missing, counts.distinct - before.distinct
    ratios = wall[0] / wall[1]
    steps = pairs * BLOCK
    return {
        "id": "cache.cold4x.speed_ratio",
        "value": round(float(np.median(wall[1])) / BLOCK, 2),
        "unit": "ms a step",
        "baseline": "all rows in memory",
        "baseline_value": round(float(np.median(wall[0])) / BLOCK, 2),
        "ratio": round(float(np.median(ratios)), 3),
        "median_of": pairs,
        "spread": interval(ratios),
        "context": {
            "clock": "wall",
            "past_the_page_cache": cold.is_direct,
            "ratio_with_page_cache": round(float(np.median(wall[0] / wall[2])), 3),
            "hit_rate": round(1 - missing / distinct, 4),
            "ids_a_step": batches[0].counts.ids,
            "distinct_rows_a_step": round(distinct / steps),
            "rows_fetched_a_step": round(missing / steps),
            "read_ahead": round((counts.ahead - before.ahead) / missing, 3),
            "bytes_moved_a_step": round((missing + counts.evicted - before.evicted) * cold.row_bytes / steps),
            "samples": num_samples,
            "steps_a_block": BLOCK,
            "threads": THREADS,
            "seed": SEED,
            "torch": torch.__version__,
        },
    }


def _train(model: RecModel, batches: Sequence[StepBatch]) -> None:
    step = Step(model, OPTIMIZER)
    for batch in batches:
        step.run(batch)


def _train_ahead(model: RecModel, tables: CachedTables, batches: Sequence[StepBatch]) -> None:
    """As the loop does it: the next step is known while one is computed. The last of the batches is only expected."""
    step = Step(model, OPTIMIZER)
    for batch, after in pairwise(batches):
        tables.expect(after.uses)
        step.run(batch)
    tables.wait()


def _timed(run: Callable[[], None]) -> float:
    """Milliseconds."""
    clock = Clock()
    begun_ns = clock.monotonic_ns()
    run()
    return (clock.monotonic_ns() - begun_ns) / 1e6


if __name__ == "__main__":
    show(measure())
