"""What clustering by session costs or gains in learning: MovieLens-100K, one pass, predict, score, then learn.

    python -m benchmarks.movielens [--seeds 0 1 2]

The log goes through the real decoder and the real core (no Kafka), once with 30-minute sessions and once in time
order, in mini-batches of 256; the same model and an online logistic regression (user and item, per-row Adagrad, best
of its rates) learn from the same batches in the same order. One result a line, as JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from infra.config import Config, from_values
from infra.demo.movielens import prepared
from infra.presets import movielens
from sessionizer.core import PartitionCore
from sessionizer.effects import EmitBatch
from streams.clock_mark import ClockMark, MarkKind
from streams.events.decode import EventDecoder
from streams.minibatch import MiniBatch

CACHE: Final = Path(".recd/cache")
RATES: Final = (0.2, 0.3, 0.4, 0.6, 0.8)
SEEDS: Final = (0, 1, 2)
ORDERS: Final = ("clustered", "time_order")
POLL: Final = 4096
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log as the record it becomes."""

    offset: int
    timestamp: int
    key: bytes
    value: bytes
    topic: str = "interactions"
    partition: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


def log(path: Path) -> Iterator[Line]:
    """The ratings in event-time order."""
    with path.open(encoding="utf-8", newline="") as file:
        for offset, row in enumerate(csv.DictReader(file, delimiter="\t")):
            value = json.dumps({name: int(float(text)) for name, text in row.items()}).encode()
            yield Line(offset, 1000 * int(row["timestamp"]), row["user_id"].encode(), value)


def mini_batches(config: Config, lines: Sequence[Line], *, gap_ms: int) -> list[MiniBatch]:
    """Through the decoder and the core; a gap of 1 ms makes every second a session of its own: time order."""
    decoder = EventDecoder(config.schema)
    core = PartitionCore(config.schema, replace(config.session, gap_ms=gap_ms), config.batch, 0, config.join)
    effects = []
    for start in range(0, len(lines), POLL):
        poll = decoder.decode(lines[start : start + POLL])
        effects += core.feed(poll.events, rejected=len(poll.rejected), next_offset=poll.next_offset)
    effects += core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.END))
    return [effect.batch for effect in effects if isinstance(effect, EmitBatch)]


def ne_of_model(config: Config, batches: Sequence[MiniBatch], seed: int) -> float:
    """Lifetime NE of one pass."""
    from trainer.evaluate import Evaluator
    from trainer.model import build_model
    from trainer.step import Step
    from trainer.tensors import to_tensors

    model = build_model(config.schema, config.model, config.optimizer, seed)
    step, evaluator = Step(model, config.optimizer), Evaluator([label.name for label in config.labels])
    for batch in batches:
        tensors = to_tensors([batch], config.schema, config.model)
        evaluator.update(step.run(tensors).logits_BT, tensors.labels_BT)
    return float(evaluator.report()[config.labels[0].name]["lifetime"]["ne"])


def measure(seeds: Sequence[int] = SEEDS, cache: Path = CACHE, orders: Sequence[str] = ORDERS) -> list[Result]:
    """NE of the model (mean over seeds) over NE of the logistic regression, for batches of each order."""
    from trainer.baseline import best_of

    config = from_values(movielens())
    lines = list(log(prepared(cache)))
    results = []
    for order in orders:
        gap_ms = config.session.gap_ms if order == "clustered" else 1
        batches = mini_batches(config, lines, gap_ms=gap_ms)
        regression = best_of(batches, ("user", "item"), RATES)
        rate = min(regression, key=lambda each: regression[each])
        found = [ne_of_model(config, batches, seed) for seed in seeds]
        results.append(
            {
                "id": f"learning.movielens.{order}.ne",
                "value": round(float(np.mean(found)), 5),
                "unit": "normalized entropy, lifetime",
                "baseline": f"online logistic regression, rate {rate}",
                "baseline_value": round(regression[rate], 5),
                "ratio": round(float(np.mean(found)) / regression[rate], 5),
                "median_of": len(found),
                "spread": [round(min(found), 5), round(max(found), 5)],
                "context": {
                    "seeds": list(seeds),
                    "batches": len(batches),
                    "samples": sum(map(len, batches)),
                    "batch_samples": config.batch.samples,
                    "rates": {str(each): round(ne, 5) for each, ne in regression.items()},
                },
            }
        )
    return results


def main() -> None:
    """Print one result a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    for result in measure(parser.parse_args().seeds):
        sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
