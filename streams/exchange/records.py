"""A mini-batch as plain Python, a dict a sample, for people; and a mini-batch out of such records.

Owns the record around the features, which are `streams.ikjt.records`, and what the records of a batch have in common:

    {"offset": 100, "event_id": 5, "session_id": 9, "event_time_ms": 1700000000000, "appended_ms": -1,
     "labels": [1.0], "dense": [0.5, -1.0], "features": {"history": [7, 8], "age": 30.0}}

What comes back is equal in every bit, with one exception: Python makes a signaling NaN a quiet one.
Where some sample is not settled, each has a `"stage"` too (`Stage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.ikjt import records as group_records
from streams.ikjt.layout import GroupLayout
from streams.ikjt.records import Record
from streams.minibatch import LINEAGE_DTYPES, Lineage, MiniBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLayout:
    """What the records of a mini-batch have in common."""

    partition: int
    sequence: int
    watermark_ms: int
    fingerprint: int
    num_labels: int
    num_dense: int
    groups: tuple[GroupLayout, ...]
    negative_rate: float = 1.0

    @staticmethod
    def of(batch: MiniBatch) -> BatchLayout:
        """The description of a mini-batch that is there."""
        return BatchLayout(
            partition=batch.partition,
            sequence=batch.sequence,
            watermark_ms=batch.watermark_ms,
            fingerprint=batch.fingerprint,
            num_labels=batch.labels.shape[1],
            num_dense=batch.dense.shape[1],
            groups=tuple(map(GroupLayout.of, batch.groups)),
            negative_rate=batch.negative_rate,
        )


def to_dicts(batch: MiniBatch) -> list[dict[str, Any]]:
    """One record a sample. Raises ValueError for a broken batch, and for names that are not unique."""
    batch.validate()
    columns: dict[str, list[Any]] = {name: getattr(batch.lineage, name).tolist() for name in LINEAGE_DTYPES}
    columns |= {"labels": batch.labels.tolist(), "dense": batch.dense.tolist()}
    if not batch.all_settled:
        columns["stage"] = batch.stages.tolist()
    columns["features"] = group_records.to_dicts(batch.groups) if batch.groups else [{} for _ in range(len(batch))]
    return [dict(zip(columns, sample, strict=True)) for sample in zip(*columns.values(), strict=True)]


def from_dicts(records: Sequence[Record], layout: BatchLayout) -> MiniBatch:
    """The mini-batch of these samples, deduplicated; windows are laid out as the engine lays them out.

    Raises ValueError that names the sample and the key.
    """
    staged = any("stage" in record for record in records)
    names = [*LINEAGE_DTYPES, "labels", "dense", *(["stage"] if staged else []), "features"]
    for b, record in enumerate(records):
        if record.keys() != set(names):
            raise ValueError(f"sample {b}: needs {', '.join(names)}, not {', '.join(record)}")
    lineage = Lineage(**{name: _integers(records, name, dtype) for name, dtype in LINEAGE_DTYPES.items()})
    batch = MiniBatch(
        partition=layout.partition,
        sequence=layout.sequence,
        watermark_ms=layout.watermark_ms,
        fingerprint=layout.fingerprint,
        lineage=lineage,
        labels=_floats(records, "labels", layout.num_labels),
        dense=_floats(records, "dense", layout.num_dense),
        groups=group_records.from_dicts([record["features"] for record in records], layout.groups, lineage.session_id),
        negative_rate=layout.negative_rate,
        stage=_integers(records, "stage", np.dtype(np.uint8)) if staged else None,
    )
    batch.validate()
    return batch


def _integers(records: Sequence[Record], name: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """[B]."""
    return np.asarray(
        [group_records.whole(record[name], dtype, f"sample {b}, {name}") for b, record in enumerate(records)], dtype
    )


def _floats(records: Sequence[Record], name: str, num_columns: int) -> npt.NDArray[np.float32]:
    """[B, columns]."""
    matrix = np.empty((len(records), num_columns), np.float32)
    for b, record in enumerate(records):
        row = group_records.sequence(record[name], f"sample {b}, {name}")
        if len(row) != num_columns:
            raise ValueError(f"sample {b}, {name}: needs {num_columns} numbers, not {len(row)}")
        matrix[b] = [group_records.number(value, f"sample {b}, {name}") for value in row]
    return matrix
