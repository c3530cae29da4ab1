"""The least that any cache must fetch: Belady's rule, which keeps what will be needed soonest.

Shape suffixes: R rows, X distinct rows of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
_NEVER: Final = 1 << 62


def misses_of_belady(steps: Sequence[I64], num_rows: int, capacity: int) -> I64:
    """Rows that each step must fetch, with `capacity` rows kept from a step to the next. Rows of a step are distinct.

    What a step fetches and what is kept may lie beside each other, so it is a bound for caches that have no such room.
    """
    next_use = _next_uses(steps, num_rows)
    kept_R, use_R = np.zeros(num_rows, np.bool_), np.full(num_rows, _NEVER)
    misses = np.zeros(len(steps), np.int64)
    for k, rows_X in enumerate(steps):
        misses[k] = np.count_nonzero(~kept_R[rows_X])
        kept_R[rows_X] = True
        use_R[rows_X] = next_use[k]
        candidates = np.flatnonzero(kept_R)
        if (surplus := len(candidates) - capacity) > 0:
            latest = np.argpartition(use_R[candidates], capacity)[-surplus:]
            kept_R[candidates[latest]] = False
    return misses


def _next_uses(steps: Sequence[I64], num_rows: int) -> list[I64]:
    """The step that uses each row next, after each step."""
    next_R, found = np.full(num_rows, _NEVER), list[I64]()
    for k in reversed(range(len(steps))):
        found.append(next_R[steps[k]])
        next_R[steps[k]] = k
    return found[::-1]
