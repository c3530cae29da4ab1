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
            distinct row, on the loops of `transforms_kernels` and the lists of `transforms_lists`
layout      what a group is, without its samples

Conversions, lossless both ways. The lower ones load what they are named after; import them where they are wanted:
arrays      a plain dict of named NumPy arrays
records     a dict a sample, for people
arrow       Arrow record batches, dictionaries and list columns; `arrow_lists` has the lists
tensors     torch, in one buffer (`packed`) that moves to a device without waiting
torchrec    TorchRec's KeyedJaggedTensor, plain and variable-batch
"""

from streams.ikjt.arrays import from_arrays, to_arrays
from streams.ikjt.dedup import check_rows_distinct, compose, deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.layout import FeatureLayout, GroupLayout
from streams.ikjt.partial import as_windows, deduplicate_windows, window_values
from streams.ikjt.records import from_dicts, to_dicts
from streams.ikjt.regroup import concat_groups, slice_group
from streams.ikjt.transforms import Bucketize, Clip, Direct, Filter, Hash, Missing, Modulo, Transform, Truncate
from streams.ikjt.transforms_groups import transform_group
from streams.ikjt.transforms_rows import transform_ids, transform_rows
from streams.ikjt.windows import Group, PartialIkjt

__all__ = [
    "Bucketize",
    "Clip",
    "Direct",
    "FeatureLayout",
    "Filter",
    "Group",
    "GroupLayout",
    "Hash",
    "Ikjt",
    "Jagged",
    "Missing",
    "Modulo",
    "PartialIkjt",
    "Transform",
    "Truncate",
    "as_windows",
    "check_rows_distinct",
    "compose",
    "concat_groups",
    "deduplicate",
    "deduplicate_windows",
    "from_arrays",
    "from_dicts",
    "slice_group",
    "to_arrays",
    "to_dicts",
    "transform_group",
    "transform_ids",
    "transform_rows",
    "window_values",
]
