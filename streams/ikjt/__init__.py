"""Jagged rows and InverseKeyedJaggedTensors: every distinct row once, and which one each sample uses.

jagged     rows of different lengths as values and offsets
ikjt       the type of one feature group, and its reference implementation
dedup      finds equal rows, exactly, in one pass
partial    measures rows that are windows of one buffer
kernels    the compiled loops
torchrec   to and from KeyedJaggedTensor; the only module here that knows torch, imported late
"""

from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import window_values

__all__ = ["Ikjt", "Jagged", "deduplicate", "window_values"]
