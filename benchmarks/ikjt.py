"""How fast equal rows are found, against streaming read bandwidth and against a dictionary of bytes; then the wire.

    recd bench ikjt, or python -m benchmarks.ikjt

B=4096 samples, 248 distinct rows (all distinct in `none`) of 3 histories in one group, 1 to 200 int64 ids each.
`adjacent` is clustered by session with 10 % of the rows moved elsewhere; `random` is shuffled. Where the first history
tells all samples apart, as in `none`, the others are not read, but count among the bytes.

The compared figure is the cold one: 128 MiB of other memory are read before every measurement, so the rows come from
memory, as the baseline's words do. The warm one, rows as near as caches allow, stands in the context.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks import wire
from benchmarks.turns import ROUNDS, Result, in_turns, show, timed, with_context
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.kernels import compiled

NUM_SAMPLES: Final = 4096
NUM_ROWS: Final = 248
NUM_FEATURES: Final = 3
MAX_LENGTH: Final = 200
SEED: Final = 0
ORDERS: Final = ("adjacent", "random", "none")


@compiled
def read_all(words: npt.NDArray[np.int64]) -> int:
    """Touches every word once: what memory can do at best."""
    total = 0
    for i in range(len(words)):
        total += words[i]
    return total


def rows_of(order: str) -> dict[str, Jagged]:
    """The rows of one batch, feature by feature."""
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
    offsets = offsets_of(lengths)
    return {
        f"history{f}": Jagged(generator.integers(0, 10**7, int(offsets[-1])), offsets).take(row)
        for f in range(NUM_FEATURES)
    }


def dictionary_of_bytes(features: dict[str, Jagged]) -> int:
    """What one would write without a library."""
    kinds: dict[tuple[bytes, ...], int] = {}
    rows = list(features.values())
    for b in range(NUM_SAMPLES):
        kinds.setdefault(tuple(each.row(b).tobytes() for each in rows), len(kinds))
    return len(kinds)


def deduplication(order: str, rounds: int = ROUNDS) -> Iterator[Result]:
    """The two lines of one order."""
    memory, other = np.ones(1 << 24, np.int64), np.ones(1 << 24, np.int64)
    features = rows_of(order)
    size = sum(int(rows.values.nbytes) for rows in features.values())
    measured = partial(deduplicate, "g", features), partial(read_all, memory), partial(dictionary_of_bytes, features)
    cold = in_turns(*measured, before=partial(read_all, other), rounds=rounds)
    warm = in_turns(*measured[:2], rounds=rounds)
    share = size / memory.nbytes
    warm_ratio = float(np.median(warm[1] * share / warm[0]))
    context = {"caches": "cold", "samples": NUM_SAMPLES, "bytes": size, "seed": SEED}
    lines = [
        timed(
            f"ikjt.dedup.{order}.over_read_bandwidth",
            cold[0],
            "read bandwidth",
            (cold[1] * share).astype(np.int64),
            "GB/s",
            size,
        ),
        timed(f"ikjt.dedup.{order}.over_python_dict", cold[0], "dict of bytes", cold[2], "GB/s", size),
    ]
    yield with_context(lines[0], context | {"warm_ratio": round(warm_ratio, 3)})
    yield with_context(lines[1], context)


def measure() -> Iterator[Result]:
    """Every line of `recd bench ikjt`."""
    for order in ORDERS:
        yield from deduplication(order)
    yield from wire.measure()


if __name__ == "__main__":
    show(measure())
