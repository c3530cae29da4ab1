"""How fast equal rows are found, against streaming read bandwidth and against a dictionary of bytes.

    python -m benchmarks.ikjt

B=4096 samples, 248 distinct rows (all distinct in `none`), 1 to 200 int64 ids each. `adjacent` is clustered by
session with 10 % of the rows moved elsewhere; `random` is shuffled. One result a line, as JSON; `ratio` is what is
compared: ours and the baselines run in turns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from infra.clock import Clock
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.kernels import compiled

NUM_SAMPLES, NUM_ROWS, MAX_LENGTH, ROUNDS, SEED = 4096, 248, 200, 31, 0
Result = dict[str, Any]


@compiled
def read_all(words: npt.NDArray[np.int64]) -> int:
    """Touches every word once: what memory can do at best."""
    total = 0
    for i in range(len(words)):
        total += words[i]
    return total


def rows_of(order: str) -> Jagged:
    """The rows of one batch."""
    generator = np.random.default_rng(SEED)
    num_rows = NUM_SAMPLES if order == "none" else NUM_ROWS
    sizes = generator.multinomial(NUM_SAMPLES - num_rows, [1 / num_rows] * num_rows) + 1
    row = np.repeat(np.arange(num_rows), sizes)
    if order == "adjacent":
        moved = np.flatnonzero(generator.random(NUM_SAMPLES) < 0.1)
        row[moved] = row[generator.permutation(moved)]
    if order == "random":
        generator.shuffle(row)
    lengths = generator.integers(1, MAX_LENGTH + 1, num_rows)
    values = generator.integers(0, 10**7, int(lengths.sum()))
    return Jagged(values, offsets_of(lengths)).take(row)


def dictionary_of_bytes(rows: Jagged) -> int:
    """What one would write without a library."""
    kinds: dict[bytes, int] = {}
    for b in range(rows.num_rows):
        kinds.setdefault(rows.row(b).tobytes(), len(kinds))
    return len(kinds)


def in_turns(*functions: Callable[[], object]) -> npt.NDArray[np.int64]:
    """[functions, rounds] nanoseconds, each timed on its second call in a row.

    So rows lie as near as caches allow, as they do when just decoded, and nobody pays for what another left there.
    """
    clock = Clock()
    times = np.zeros((len(functions), ROUNDS), np.int64)
    for r in range(ROUNDS):
        for f, function in enumerate(functions):
            function()
            begin = clock.monotonic_ns()
            function()
            times[f, r] = clock.monotonic_ns() - begin
    return times


def result(name: str, ours: npt.NDArray[np.int64], baseline: str, theirs: npt.NDArray[np.int64], size: int) -> Result:
    """One line; values are GB/s, the ratio is the median over the rounds."""
    ratios = theirs / ours
    return {
        "id": name,
        "value": round(size / float(np.median(ours)), 2),
        "unit": "GB/s",
        "baseline": baseline,
        "baseline_value": round(size / float(np.median(theirs)), 2),
        "ratio": round(float(np.median(ratios)), 3),
        "median_of": ROUNDS,
        "spread": [round(float(np.quantile(ratios, q)), 3) for q in (0.25, 0.75)],
        "context": {"samples": NUM_SAMPLES, "bytes": size, "seed": SEED},
    }


def main() -> None:
    """Every line of this file."""
    memory = np.ones(1 << 24, np.int64)
    for order in ("adjacent", "random", "none"):
        rows = rows_of(order)
        size = int(rows.values.nbytes)
        ours, read, dictionary = in_turns(
            partial(deduplicate, "g", {"a": rows}),
            partial(read_all, memory),
            partial(dictionary_of_bytes, rows),
        )
        read_of_size = (read * (size / memory.nbytes)).astype(np.int64)
        lines = [result(f"ikjt.dedup.{order}.over_read_bandwidth", ours, "read bandwidth", read_of_size, size)]
        lines.append(result(f"ikjt.dedup.{order}.over_python_dict", ours, "dict of bytes", dictionary, size))
        for line in lines:
            sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
