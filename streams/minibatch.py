"""MiniBatch: samples clustered by session, deduplicated by group, with their lineage. The unit on the wire.

Owns the columns and the two hashes. Never encodes bytes (`wire`) and never knows tensors (`trainer`).

Shape suffixes: B samples, T labels, K dense columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xxhash

from streams.ikjt.windows import Group
from streams.stage import Stage

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Lineage:
    """Where each sample of a mini-batch came from."""

    offset: I64
    """[B], offset of the sample's impression in partition `MiniBatch.partition` of the interactions topic."""
    event_id: U64
    """[B]."""
    session_id: U64
    """[B], equal for the samples of one session, parts of a capped one included; clustered."""
    event_time_ms: I64
    """[B]."""
    appended_ms: I64
    """[B], wall clock of the producer; -1 unknown. Freshness is measured from here."""


LINEAGE_DTYPES: Final = {
    "offset": np.dtype(np.int64),
    "event_id": np.dtype(np.uint64),
    "session_id": np.dtype(np.uint64),
    "event_time_ms": np.dtype(np.int64),
    "appended_ms": np.dtype(np.int64),
}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MiniBatch:
    """B samples of whole sessions (or of the parts of a capped one), in canonical order."""

    partition: int
    """Partition of the interactions topic, and of the mini-batch topic."""
    sequence: int
    """0, 1, 2… without gaps within the partition: with the partition, the identity of the batch."""
    watermark_ms: int
    """Event time up to which the partition was complete when the batch was sealed."""
    fingerprint: int
    """`EventSchema.fingerprint()` of the schema it was built under."""
    lineage: Lineage
    labels: F32
    """[B, T]."""
    dense: F32
    """[B, K], the columns of `EventSchema.ungrouped_dense`; dense columns of groups are in their groups."""
    groups: tuple[Group, ...]
    """In the order of `EventSchema.all_groups`, each in its exact or its partial form."""
    negative_rate: float = 1.0
    """Share of the samples without a positive label that was kept (`join.negative_rate`); above 0, at most 1."""
    stage: U8 | None = None
    """[B], `Stage` of each sample; None where all are SETTLED."""

    def __len__(self) -> int:
        return len(self.lineage.offset)

    def __repr__(self) -> str:
        """A line for the batch and one for each group."""
        head = (
            f"MiniBatch(partition {self.partition}, sequence {self.sequence}; {len(self)} samples in "
            f"{self.num_sessions} sessions, {self.labels.shape[1]} labels, {self.dense.shape[1]} dense columns"
        )
        return "\n  ".join([head, *map(repr, self.groups)]) + ")"

    @property
    def num_sessions(self) -> int:
        """Sessions, or parts of one, in this batch."""
        session = self.lineage.session_id
        return int(np.count_nonzero(session[1:] != session[:-1])) + 1 if len(session) else 0

    @property
    def stages(self) -> U8:
        """[B], `Stage` of each sample."""
        return np.zeros(len(self), np.uint8) if self.stage is None else self.stage

    @property
    def all_settled(self) -> bool:
        """Whether no sample is of another stage."""
        return self.stage is None or not self.stage.any()

    def identities(self) -> list[tuple[int, int, int, tuple[int, ...]]]:
        """[B], what exactly-once counts in a partition: (offset, event id, stage, labels that a correction turned).

        A sample occurs once as SETTLED or PROVISIONAL, and once more as CORRECTION for each label that turned later.
        """
        stages = self.stages.tolist()
        turned: list[tuple[int, ...]] = [
            tuple(np.flatnonzero(labels == 1).tolist()) if stage == Stage.CORRECTION else ()
            for stage, labels in zip(stages, self.labels, strict=True)
        ]
        return list(zip(self.lineage.offset.tolist(), self.lineage.event_id.tolist(), stages, turned, strict=True))

    def validate(self) -> None:
        """Raise ValueError that names the first column or group which does not fit the others."""
        num_samples = len(self)
        if not 0 <= self.partition < 2**31 or not 0 <= self.sequence < 2**63 or not 0 <= self.fingerprint < 2**64:
            raise ValueError(f"partition {self.partition}, sequence {self.sequence}, fingerprint {self.fingerprint}")
        for name, dtype in LINEAGE_DTYPES.items():
            column = getattr(self.lineage, name)
            if column.shape != (num_samples,) or column.dtype != dtype:
                raise ValueError(f"lineage.{name} must be [{num_samples}] {dtype}, not {column.shape} {column.dtype}")
        for name, matrix in (("labels", self.labels), ("dense", self.dense)):
            if matrix.ndim != 2 or len(matrix) != num_samples or matrix.dtype != np.float32:
                raise ValueError(f"{name} must be [{num_samples}, …] float32, not {matrix.shape} {matrix.dtype}")
        self._check_labelling()
        names = [group.group for group in self.groups]
        keys = [key for group in self.groups for key in group.keys]
        dense = [name for group in self.groups for name in group.dense_names]
        for what, given in (("group", names), ("feature", keys), ("dense column", dense)):
            twice = {name for name, count in Counter(given).items() if count > 1}
            if twice:
                raise ValueError(f"{what} {min(twice)} is there twice; names must be unique")
        for group in self.groups:
            if group.num_samples != num_samples:
                raise ValueError(f"group {group.group} has {group.num_samples} samples, the lineage {num_samples}")
            group.validate()

    def _check_labelling(self) -> None:
        """Rate and stages."""
        if not 0.0 < self.negative_rate <= 1.0:
            raise ValueError(f"negative_rate must lie above 0 and be at most 1, not {self.negative_rate}")
        if self.stage is None:
            return
        if self.stage.shape != (len(self),) or self.stage.dtype != np.uint8:
            raise ValueError(f"stage must be [{len(self)}] uint8, not {self.stage.shape} {self.stage.dtype}")
        if len(self) and self.stage.max() > max(Stage):
            raise ValueError(f"stage {self.stage.max()} does not exist; there are 0 to {max(Stage)}")

    @cached_property
    def content_hash(self) -> int:
        """64 bits of labels, features, event and session ids, stages and rate; no offsets, clocks or compression.

        Two runs over the same events give equal hashes; replay compares by this one. The form in which a group is
        stored is not its content either: what is hashed are the exact rows. Each column goes in behind its name, type
        and shape, so that no two batches have the same bytes by being cut differently.
        """
        digest = xxhash.xxh3_64()
        for name, column in self._content():
            digest.update(f"{name}\0{column.dtype.str}\0{column.shape}\0".encode())
            digest.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
        return digest.intdigest()

    def _content(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Name and column of everything that is content; `repr` keeps names apart, whatever they hold."""
        lineage = self.lineage
        yield "event_id", lineage.event_id
        yield "session_id", lineage.session_id
        yield "event_time_ms", lineage.event_time_ms
        yield "labels", self.labels
        yield "negative_rate", np.array([self.negative_rate])
        yield "stage", self.stages
        yield "dense", self.dense
        for group in self.groups:
            yield repr((group.group, group.keys, group.dense_names)), group.inverse
            if group.dense is not None:
                yield "dense", group.dense
            for rows in group.features.values():
                yield "values", rows.values
                yield "offsets", rows.offsets
                if rows.weights is not None:
                    yield "weights", rows.weights
