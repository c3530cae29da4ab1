"""Arrays that grow: what is not used yet costs addresses, not memory.

Owns where large arrays lie: in pages of their own, which the system gives out when they are first written to and takes
back as soon as the array is gone. From the heap they would come zeroed, that is touched, and leave holes behind when
they have been replaced by larger ones. `np.concatenate` with zeros would touch everything, too.
"""

from __future__ import annotations

import math
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_LARGE: Final = 1 << 20
"""Bytes from which on pages of its own are worth a system call."""


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """As `np.zeros`."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    if nbytes < _LARGE:
        return np.zeros(shape, dtype)
    return np.frombuffer(mmap(-1, nbytes, flags=MAP_PRIVATE | MAP_ANONYMOUS), dtype).reshape(shape)


def grown(array: npt.NDArray[Any], size: int, used: int | None = None) -> npt.NDArray[Any]:
    """The first `used` records of `array` (all of them if not said), and zeros up to `size` in all."""
    used = len(array) if used is None else used
    larger = zeros((size, *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger
