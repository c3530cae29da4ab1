"""Measuring in turns, and the line that a result is.

Owns the clock's use and the format. What is measured is each benchmark's own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infra.clock import Clock

ROUNDS: Final = 31
_RESAMPLED: Final = 2000
I64 = npt.NDArray[np.int64]
Result = dict[str, Any]


def in_turns(*functions: Callable[[], object], before: Callable[[], object] | None = None, rounds: int = ROUNDS) -> I64:
    """[functions, rounds] nanoseconds of CPU time, A B A B.

    Without `before`, each is timed on its second call in a row: data lie as near as caches allow, and nobody pays for
    what another left there. With it, that is called before each: a read of other memory leaves the caches cold.
    """
    clock = Clock()
    times = np.zeros((len(functions), rounds), np.int64)
    for function in functions:
        function()
    for r in range(rounds):
        for f, function in enumerate(functions):
            (function if before is None else before)()
            begin = clock.process_ns()
            function()
            times[f, r] = clock.process_ns() - begin
    return times


def timed(name: str, ours: I64, baseline: str, theirs: I64, unit: str, scale: float) -> Result:
    """A line of two rows of times; `scale` over a time is the value, the ratio is the median of the pairs."""
    ratios = theirs / ours
    generator = np.random.default_rng(0)
    medians = np.median(generator.choice(ratios, (_RESAMPLED, len(ratios))), axis=1)
    return {
        "id": name,
        "value": round(scale / float(np.median(ours)), 3),
        "unit": unit,
        "baseline": baseline,
        "baseline_value": round(scale / float(np.median(theirs)), 3),
        "ratio": round(float(np.median(ratios)), 3),
        "median_of": len(ratios),
        "spread": [round(float(q), 3) for q in np.quantile(medians, (0.025, 0.975))],
        "context": {"clock": "CPU time", "spread": "95 % bootstrap interval of the median"},
    }


def sized(
    name: str, ours: npt.ArrayLike, baseline: str, theirs: npt.ArrayLike, ratios: npt.ArrayLike, **context: object
) -> Result:
    """A line of bytes a sample, one figure a mini-batch; the spread is from the least to the greatest."""
    each = np.asarray(ratios, np.float64)
    return {
        "id": name,
        "value": round(float(np.median(np.asarray(ours))), 2),
        "unit": "bytes a sample",
        "baseline": baseline,
        "baseline_value": round(float(np.median(np.asarray(theirs))), 2),
        "ratio": round(float(np.median(each)), 3),
        "median_of": len(each),
        "spread": [round(float(each.min()), 3), round(float(each.max()), 3)],
        "context": context,
    }


def with_context(result: Result, context: Mapping[str, object]) -> Result:
    """The line with more context."""
    return {**result, "context": {**result["context"], **context}}


def show(lines: Iterable[Result]) -> None:
    """Print one result a line, as it comes."""
    for line in lines:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
