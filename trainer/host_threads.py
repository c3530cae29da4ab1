"""Compiled loops over consecutive parts of their work, on as many threads as torch uses.

Owns the threads. What is cut, and into which parts, comes from the caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

_FEW: Final = 32_768
"""Ids that one thread has done before another would have woken up."""


def in_parts(kernel: Callable[..., None], arrays: tuple[Any, ...], work_P1: npt.NDArray[np.int64]) -> None:
    """Call `kernel(*arrays, first, last)` for parts of about equal work. `work_P1`: running total, from 0 to P."""
    threads = torch.get_num_threads() if work_P1[-1] > _FEW else 1
    cuts = np.searchsorted(work_P1, np.linspace(0, work_P1[-1], threads + 1))
    cuts[-1] = len(work_P1) - 1
    parts = [(first, last) for first, last in pairwise(cuts.tolist()) if first < last]
    others = [_threads().submit(kernel, *arrays, *part) for part in parts[1:]]
    if parts:
        kernel(*arrays, *parts[0])
    for other in others:
        other.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="recd-host")


# A forked process has none of its parent's threads.
os.register_at_fork(after_in_child=_threads.cache_clear)
