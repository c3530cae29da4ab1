"""A mini-batch as a plain dict of named NumPy arrays, and back. Nothing is copied, nothing is pickled.

Owns the names beside those of the groups, which are `streams.ikjt.arrays`. Version 1:

    recd.minibatch                                       1, without dimensions, as the four below
    partition, sequence, watermark_ms, fingerprint       int64; the last uint64
    lineage/offset, lineage/event_id, …                  [B]
    labels [B, T], dense [B, K]                          float32
    negative_rate                                        float64, without dimensions; absent where it is 1
    stage [B]                                            uint8 (`Stage`); absent where all samples are settled
    groups/g/…                                           group g, from 0

A file is `np.savez(path, **to_arrays(batch), allow_pickle=False)`, and `from_arrays(np.load(path))` reads it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt import arrays as group_arrays
from streams.ikjt.arrays import Arrays
from streams.minibatch import LINEAGE_DTYPES, Lineage, MiniBatch

_VERSION: Final = 1
_INT64: Final = np.dtype(np.int64)
_IDENTITY: Final = {
    "partition": _INT64,
    "sequence": _INT64,
    "watermark_ms": _INT64,
    "fingerprint": np.dtype(np.uint64),
}
_OPTIONAL: Final = ("negative_rate", "stage")
_GROUPS: Final = "groups/"


def to_arrays(batch: MiniBatch) -> dict[str, npt.NDArray[Any]]:
    """Name to array. Arrays are those of the batch, not copies. Raises ValueError for a broken batch."""
    batch.validate()
    return {
        "recd.minibatch": np.asarray(_VERSION, _INT64),
        **{name: np.asarray(getattr(batch, name), dtype) for name, dtype in _IDENTITY.items()},
        **{f"lineage/{name}": getattr(batch.lineage, name) for name in LINEAGE_DTYPES},
        "labels": batch.labels,
        "dense": batch.dense,
        **_labelling(batch),
        **group_arrays.to_arrays(batch.groups, _GROUPS),
    }


def from_arrays(arrays: Arrays) -> MiniBatch:
    """The mini-batch of these arrays. Raises ValueError that names an array which is missing, unknown or unfit."""
    names = ["recd.minibatch", *_IDENTITY, *(f"lineage/{name}" for name in LINEAGE_DTYPES), "labels", "dense"]
    missing = [name for name in names if name not in arrays]
    known = {*names, *_OPTIONAL}
    unknown = [name for name in arrays if name not in known and not name.startswith(_GROUPS)]
    if missing or unknown:
        what = f"there is no array {missing[0]}" if missing else f"no mini-batch has an array {unknown[0]}"
        raise ValueError(f"{what}; it has {', '.join(names)} and those of its groups")
    if _integer(arrays, "recd.minibatch", _INT64) != _VERSION:
        raise ValueError(f"recd.minibatch is {arrays['recd.minibatch']}; this version of recd reads {_VERSION}")
    batch = MiniBatch(
        **{name: _integer(arrays, name, dtype) for name, dtype in _IDENTITY.items()},
        lineage=Lineage(**{name: arrays[f"lineage/{name}"] for name in LINEAGE_DTYPES}),
        labels=arrays["labels"],
        dense=arrays["dense"],
        groups=group_arrays.from_arrays(arrays, _GROUPS),
        negative_rate=_rate(arrays),
        stage=arrays.get("stage"),
    )
    for name, column in (("lineage/offset", batch.lineage.offset), ("labels", batch.labels), ("dense", batch.dense)):
        if column.ndim == 0:
            raise ValueError(f"array {name} has no dimensions; it needs one entry a sample")
    batch.validate()
    return batch


def _labelling(batch: MiniBatch) -> dict[str, npt.NDArray[Any]]:
    """Rate and stages, where they say anything: the names of a mini-batch from before they existed stay the same."""
    found: dict[str, npt.NDArray[Any]] = {}
    if batch.negative_rate != 1.0:
        found["negative_rate"] = np.asarray(batch.negative_rate, np.float64)
    if not batch.all_settled:
        found["stage"] = batch.stages
    return found


def _rate(arrays: Arrays) -> float:
    if "negative_rate" not in arrays:
        return 1.0
    array = arrays["negative_rate"]
    if array.shape != () or array.dtype != np.float64:
        raise ValueError(f"array negative_rate must be one float64, not {array.dtype} of shape {array.shape}")
    return float(array)


def _integer(arrays: Arrays, name: str, dtype: np.dtype[Any]) -> int:
    array = arrays[name]
    if array.shape != () or array.dtype != dtype:
        raise ValueError(f"array {name} must be one {dtype}, not {array.dtype} of shape {array.shape}")
    return int(array)
