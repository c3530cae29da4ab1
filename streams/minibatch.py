"""MiniBatch: samples clustered by session, deduplicated by group, with their lineage. The unit on the wire.

Owns the columns and the two hashes. Never encodes bytes (`wire`) and never knows tensors (`trainer`).

Shape suffixes: B samples, T labels, K dense columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import xxhash

from streams.ikjt.ikjt import Ikjt

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F32 = npt.NDArray[np.float32]


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


@dataclass(frozen=True, eq=False, kw_only=True)
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
    """[B, K]."""
    groups: tuple[Ikjt, ...]
    """In the order of `EventSchema.all_groups`."""

    def __len__(self) -> int:
        return len(self.lineage.offset)

    @property
    def num_sessions(self) -> int:
        """Sessions, or parts of one, in this batch."""
        session = self.lineage.session_id
        return int(np.count_nonzero(session[1:] != session[:-1])) + 1 if len(session) else 0

    @cached_property
    def content_hash(self) -> int:
        """64 bits of labels, features, event and session ids; no offsets, clocks or compression.

        Two runs over the same events give equal hashes; replay compares by this one.
        """
        digest = xxhash.xxh3_64()
        for column in (self.lineage.event_id, self.lineage.session_id, self.lineage.event_time_ms, self.labels, self.dense):
            digest.update(np.ascontiguousarray(column).data)
        for group in self.groups:
            digest.update(group.group.encode())
            digest.update(np.ascontiguousarray(group.inverse).data)
            for key, rows in group.features.items():
                digest.update(key.encode())
                digest.update(np.ascontiguousarray(rows.values).data)
                digest.update(np.ascontiguousarray(rows.offsets).data)
                if rows.weights is not None:
                    digest.update(np.ascontiguousarray(rows.weights).data)
        return digest.intdigest()
