"""How often a worker looks for garbage. Owns Python's thresholds for this process."""

from __future__ import annotations

import gc
from typing import Final

_COLLECT_EVERY: Final = (200_000, 50, 100)
"""Thresholds of Python's garbage collector; what a cycle can hold back until then is tens of megabytes at most."""


def collect_rarely() -> None:
    """Records come by the hundred thousand and never form a cycle: looking for one took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_EVERY)
