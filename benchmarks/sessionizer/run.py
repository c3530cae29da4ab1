"""What the sessionizer costs: against others on the same topics, and flat in what it holds.

    recd bench sessionizer, or python -m benchmarks.sessionizer.run

Starts a Kafka of its own, runs everything on one core (the last that this process may use; the broker goes where it
likes), and takes a quarter of an hour on an idle machine with two cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.sessionizer import contest, flat
from benchmarks.sessionizer.contest import Place, Sizes
from benchmarks.sessionizer.flat import FlatSizes
from benchmarks.turns import Result, show, with_context
from infra.services.stack import Stack


def measure(sizes: Sizes | None = None, ends: FlatSizes | None = None) -> Iterator[Result]:
    """Every line of `recd bench sessionizer`."""
    sizes, ends = sizes or Sizes(), ends or FlatSizes()
    with TemporaryDirectory(prefix="recd-bench-") as name:
        stack = Stack(Path(name) / "services", tied=True)
        try:
            place = Place(stack.up(brokers=1, kind="kafka").kafka, Path(name) / "runs", max(os.sched_getaffinity(0)))
            for part in (contest.small, contest.listed, contest.many_a_message):
                for line in part(place, sizes):
                    yield with_context(line, _machine())
            for scenario in flat.SCENARIOS:
                for line in scenario(place, ends):
                    yield with_context(line, _machine())
        finally:
            stack.down()


def _machine() -> dict[str, object]:
    """What else was going on: the load of the last minutes, and how many cores share it."""
    return {"load_5min": round(os.getloadavg()[1], 2), "cores": os.cpu_count()}


if __name__ == "__main__":
    show(measure())
