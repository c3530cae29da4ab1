"""Jagged rows and InverseKeyedJaggedTensors: every distinct row once, and which one each sample uses.

jagged      rows of different lengths as values and offsets
ikjt        the type of one feature group, and its reference implementation
windows     the same for rows that are windows of shared buffers: the partial form
invariants  what both forms promise
dedup       finds equal rows, exactly, in one pass; composes groups
partial     finds rows that are windows of one buffer
regroup     joins the groups of several batches, and cuts one down to some of its samples
kernels     the compiled loops
transforms  what ids become before they are looked up: `transforms_rows` and `transforms_groups` run them, once per
            distinct row, on the loops of `transforms_kernels`
torchrec    to and from KeyedJaggedTensor; the only module here that knows torch, imported late
"""

from streams.ikjt.dedup import compose, deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import as_windows, deduplicate_windows, window_values
from streams.ikjt.regroup import concat_groups, slice_group
from streams.ikjt.transforms import Bucketize, Clip, Direct, Filter, Hash, Missing, Modulo, Transform, Truncate
from streams.ikjt.transforms_groups import transform_group
from streams.ikjt.transforms_rows import transform_ids, transform_rows
from streams.ikjt.windows import Group, PartialIkjt

__all__ = [
    "Bucketize",
    "Clip",
    "Direct",
    "Filter",
    "Group",
    "Hash",
    "Ikjt",
    "Jagged",
    "Missing",
    "Modulo",
    "PartialIkjt",
    "Transform",
    "Truncate",
    "as_windows",
    "compose",
    "concat_groups",
    "deduplicate",
    "deduplicate_windows",
    "slice_group",
    "transform_group",
    "transform_ids",
    "transform_rows",
    "window_values",
]
