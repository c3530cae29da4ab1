"""How the C library keeps a worker's memory. Owns its settings for this process.

Left to itself it has a heap for every partition's thread and, once large arrays have been freed, keeps as much again in
each. A worker's large arrays live for one poll.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # as glibc's malloc.h numbers them
_KEPT_BYTES: Final = 16 << 20
_LARGE_BYTES: Final = 8 << 20


def give_back_early() -> None:
    """One heap for all threads, which take turns in Python anyway; arrays from eight megabytes on lie outside it.

    The heap keeps what the arrays of a few polls need: to get a page again costs more than to use it. Before the
    threads are started. Without glibc nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
