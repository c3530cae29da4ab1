"""What transforms cost on distinct rows, against the same transforms on every sample of the expanded batch.

    recd bench transforms, or python -m benchmarks.transforms

Histories of rm1 (three in a group, 1 to 200 ids each, 4,096 samples clustered by session), whose share of samples
without a change is set so that the dedup factor is about 4, 8 and 16. One chain of every transform, filter to hash,
runs on the distinct rows, on the windows of the same group, and on the expanded rows; before it is timed, the results
are compared in every bit.

The bar: the deduplicated run takes at most 1 / factor + 15 % of the expanded run. `least_ratio` in the context is what
the ratio must reach for that, and `held` whether the lower end of its interval does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from benchmarks.rm import NUM_IDS, STREAMS, Stream
from benchmarks.turns import ROUNDS, Result, in_turns, show, timed, with_context
from streams.ikjt import (
    Bucketize,
    Clip,
    Filter,
    Group,
    Hash,
    Ikjt,
    Missing,
    Transform,
    Truncate,
    as_windows,
    transform_group,
)

UNCHANGED: Final = {4: 0.8, 8: 0.93, 16: 1.0}
"""Factor to the share of samples at which the histories stay as they were."""
SLACK: Final = 0.15
WIDEST: Final = 0.05
"""A line whose interval reaches farther from its median is measured again."""
TRIES: Final = 5
SEED: Final = 0
TABLE_ROWS: Final = 1_000_000
DROPPED: Final = 1_000
CHAIN: Final[tuple[Transform, ...]] = (
    Filter(drop=(*range(0, NUM_IDS, NUM_IDS // DROPPED),)),
    Clip(1_000, NUM_IDS - 1_000),
    Bucketize((*range(0, NUM_IDS, 1_000),)),
    Truncate(50),
    Missing(0),
    Hash(TABLE_ROWS, 0x5EED),
)


def groups_of(unchanged: float) -> dict[str, Group]:
    """The histories of one batch: distinct rows, windows, and a row a sample."""
    laws = replace(STREAMS["rm1"], history_d=unchanged, users=0, items=1)
    batch = Stream(laws, SEED).clustered(0)
    exact = batch.groups[0].to_exact()
    everyone = np.arange(exact.num_samples, dtype=np.int32)
    return {
        "exact": exact,
        "partial": as_windows(exact, batch.lineage.session_id),
        "expanded": Ikjt(exact.group, exact.expand(), everyone),
    }


def run(group: Group) -> Group:
    """The chain on every feature of the group."""
    return transform_group(group, dict.fromkeys(group.keys, CHAIN))


def same_samples(one: Group, other: Group) -> bool:
    """Whether every sample reads the same, bit for bit."""
    theirs = other.expand()
    return all(
        np.array_equal(rows.values, theirs[key].values) and np.array_equal(rows.offsets, theirs[key].offsets)
        for key, rows in one.expand().items()
    )


def measure(rounds: int = ROUNDS) -> Iterator[Result]:
    """Every line of `recd bench transforms`."""
    for about, unchanged in UNCHANGED.items():
        groups = groups_of(unchanged)
        expanded = groups["expanded"]
        for form in ("exact", "partial"):
            yield _line(f"ikjt.transforms.rm1.factor{about}.{form}", groups[form], expanded, rounds)


def _line(name: str, group: Group, expanded: Group, rounds: int) -> Result:
    if not same_samples(run(group), run(expanded)):
        raise AssertionError(f"{name}: transforms of distinct rows are not those of the expanded batch")
    tries, result = 1, _timed(name, group, expanded, rounds)
    while tries < TRIES and _width(result) > WIDEST:
        tries, result = tries + 1, _timed(name, group, expanded, rounds)
    least = 1 / (1 / group.dedup_factor + SLACK)
    context = {
        "factor": round(group.dedup_factor, 3),
        "least_ratio": round(least, 3),
        "held": result["spread"][0] >= least,
        "share_of_expanded": round(1 / result["ratio"], 4),
        "ids_expanded": group.num_values_expanded,
        "tries": tries,
        "chain": [type(step).__name__ for step in CHAIN],
        "seed": SEED,
    }
    return with_context(result, context)


def _timed(name: str, group: Group, expanded: Group, rounds: int) -> Result:
    # As often as makes both turns about equally long: what disturbs the machine then disturbs both alike.
    often = round(group.dedup_factor)
    times = in_turns(partial(_repeated, group, often), partial(run, expanded), rounds=rounds)
    scale = group.num_values_expanded * 1e3
    return timed(name, times[0] // often, "the same chain on the expanded batch", times[1], "million ids/s", scale)


def _width(result: Result) -> float:
    """How far the interval reaches from the median, as a share of it."""
    low, high = result["spread"]
    return float(max(result["ratio"] - low, high - result["ratio"]) / result["ratio"])


def _repeated(group: Group, often: int) -> None:
    for _ in range(often):
        run(group)


if __name__ == "__main__":
    show(measure())
