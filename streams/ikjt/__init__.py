"""Jagged rows and InverseKeyedJaggedTensors: every distinct row once, and which one each sample uses.

jagged      rows of different lengths as values and offsets
ikjt        the type of one feature group, and its reference implementation
windows     the same for rows that are windows of shared buffers: the partial form
invariants  what both forms promise
dedup       finds equal rows, exactly, in one pass; composes groups
partial     finds rows that are windows of one buffer
regroup     joins the groups of several batches, and cuts one down to some of its samples
kernels     the compiled loops
torchrec    to and from KeyedJaggedTensor; the only module here that knows torch, imported late
"""

from streams.ikjt.dedup import compose, deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import as_windows, deduplicate_windows, window_values
from streams.ikjt.regroup import concat_groups, slice_group
from streams.ikjt.windows import Group, PartialIkjt

__all__ = [
    "Group",
    "Ikjt",
    "Jagged",
    "PartialIkjt",
    "as_windows",
    "compose",
    "concat_groups",
    "deduplicate",
    "deduplicate_windows",
    "slice_group",
    "window_values",
]
