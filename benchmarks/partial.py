"""What the partial form saves on a real log: MovieLens-100K, exact rows against windows of the session's buffer.

    recd bench partial, or python -m benchmarks.partial

The log goes through the real decoder and the real core (no Kafka): strict histories of up to 50 items, sessions that
end after 30 minutes, mini-batches of 1024. Compared is the history group alone: the values that are looked up, the
buffers as they lie in memory, and the bytes that the group adds to the messages at zstd level 3. All are
counts, so one run is exact. `BARS` are the least ratios that a test holds. One result a line, as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.movielens import CACHE, log, mini_batches
from infra.config import from_values
from infra.demo.movielens import prepared
from infra.presets import movielens
from streams.ikjt.partial import as_windows
from streams.ikjt.windows import Group, PartialIkjt
from streams.minibatch import MiniBatch
from streams.wire import encode

BATCH: Final = 1024
GAP_MS: Final = 30 * 60 * 1000
GROUP: Final = "history"
LEVEL: Final = 3
Result = dict[str, Any]
FORMS: Final = ("exact", "partial")
BARS: Final = {"values": 7.0, "raw": 3.5, "zstd": 1.4}


def raw_bytes(group: Group) -> int:
    """Bytes of a group's own buffers as plain arrays, its inverse included."""
    if isinstance(group, PartialIkjt):
        sizes = next(iter(group.buffers.values())).offsets.nbytes
        values = sum(rows.values.nbytes for rows in group.buffers.values())
        return values + sizes + group.start.nbytes + group.length.nbytes + group.inverse.nbytes
    return sum(rows.nbytes for rows in group.features.values()) + group.inverse.nbytes


def added_bytes(batch: MiniBatch, group: Group) -> int:
    """Bytes by which the group makes the batch's message larger."""
    return len(encode(replace(batch, groups=(group,)), level=LEVEL)) - len(
        encode(replace(batch, groups=()), level=LEVEL)
    )


def measure(cache: Path = CACHE) -> Iterator[Result]:
    """Every line of `recd bench partial`: exact over partial, summed over all mini-batches."""
    config = from_values(movielens())
    config = replace(config, batch=replace(config.batch, samples=BATCH))
    batches = mini_batches(config, list(log(prepared(cache))), gap_ms=GAP_MS)
    sums: dict[str, dict[str, int]] = {name: dict.fromkeys(FORMS, 0) for name in BARS}
    expanded = 0
    for batch in batches:
        (exact,) = (group.to_exact() for group in batch.groups if group.group == GROUP)
        expanded += exact.num_values_expanded
        for form, group in zip(FORMS, (exact, as_windows(exact, batch.lineage.session_id)), strict=True):
            sums["values"][form] += group.num_values
            sums["raw"][form] += raw_bytes(group)
            sums["zstd"][form] += added_bytes(batch, group)
    samples = sum(map(len, batches))
    for name, each in sums.items():
        yield _result(name, each, samples, expanded, len(batches))


def _result(name: str, each: dict[str, int], samples: int, expanded: int, num_batches: int) -> Result:
    ratio = round(each["exact"] / each["partial"], 3)
    return {
        "id": f"ikjt.partial.movielens.{name}",
        "value": round(each["partial"] / samples, 3),
        "unit": "values a sample" if name == "values" else "bytes a sample",
        "baseline": "exact form of the same mini-batches",
        "baseline_value": round(each["exact"] / samples, 3),
        "ratio": ratio,
        "median_of": 1,
        "spread": [ratio, ratio],
        "context": {
            "at_least": BARS[name],
            "samples": samples,
            "batches": num_batches,
            "batch_samples": BATCH,
            "gap_ms": GAP_MS,
            "values_expanded": expanded,
            "zstd_level": LEVEL,
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one result a line."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(
        arguments
    )
    for result in measure():
        sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
