"""Progress: where each process stands, for people, for `recd lag` and for charts.

Owns the records, their keys and their bytes: JSON with a version, one record a sessionizer partition and one of the
trainer. Nothing decides by them: the truth about positions is in Kafka and in the checkpoint, so a record that is
missing or old is a fact to show, never a reason to start elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from state.store import MISSING, Missing, Store
from streams.errors import InvariantError

VERSION: Final = 1
TTL_MS: Final = 7 * 24 * 3_600_000
"""Records of processes that are gone for a week disappear."""


class SessionizerProgress(msgspec.Struct, frozen=True, kw_only=True, tag="sessionizer"):
    """One partition, as of its last commit."""

    partition: int
    next_offset: int
    """First offset of the interactions partition that has not been processed."""
    next_sequence: int
    """Sequence that the next mini-batch of the partition will have."""
    held_samples: int
    """Samples that were read and are in no mini-batch yet."""
    watermark_ms: int
    """Event time up to which the partition is complete."""
    published_ms: int
    """Wall clock."""
    version: int = VERSION


class TrainerProgress(msgspec.Struct, frozen=True, kw_only=True, tag="trainer"):
    """The trainer, as of its last checkpoint."""

    next_offsets: dict[int, int]
    """Partition of the mini-batch topic to the first offset that is not in the checkpoint."""
    next_sequences: dict[int, int]
    """Partition to the sequence of the next mini-batch to train."""
    step: int
    samples: int
    """Samples trained since the model began."""
    published_ms: int
    """Wall clock."""
    version: int = VERSION


Progress = SessionizerProgress | TrainerProgress


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything that is known at one moment."""

    sessionizer: Mapping[int, SessionizerProgress]
    """Partition to its record; partitions without one are left out."""
    trainer: TrainerProgress | Missing


def publish(store: Store, stream: str, *records: Progress) -> None:
    """Replace the records of one stream that these are newer versions of. `stream` is the interactions topic."""
    store.put_many({_key(stream, record): msgspec.json.encode(record) for record in records}, TTL_MS)


def read_all(store: Store, stream: str, num_partitions: int) -> Standing:
    """The records of one stream. Raises InvariantError for one that this version cannot read."""
    keys = [_sessionizer_key(stream, partition) for partition in range(num_partitions)] + [_trainer_key(stream)]
    found = zip(keys, store.get_many(keys), strict=True)
    records = [_decode(key, value) for key, value in found if value is not MISSING]
    trainers = [record for record in records if isinstance(record, TrainerProgress)]
    partitions = {record.partition: record for record in records if isinstance(record, SessionizerProgress)}
    return Standing(partitions, trainers[0] if trainers else MISSING)


def _decode(key: str, data: bytes) -> Progress:
    """Looks at the version first, so that a newer record is refused as newer and not as broken."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version > VERSION:
            raise InvariantError(f"{key} was written in version {version}, this recd reads {VERSION}: update it")
        record: Progress = msgspec.json.decode(data, type=Progress)
    except msgspec.MsgspecError as error:
        raise InvariantError(f"{key} cannot be read: {error}; who else writes there?") from error
    if _key(key.split("/")[1], record) != key:
        raise InvariantError(f"{key} holds the record of another process: {record}")
    return record


class _Versioned(msgspec.Struct):
    version: int


def _key(stream: str, record: Progress) -> str:
    if isinstance(record, TrainerProgress):
        return _trainer_key(stream)
    return _sessionizer_key(stream, record.partition)


def _sessionizer_key(stream: str, partition: int) -> str:
    return f"recd/{stream}/progress/sessionizer/{partition}"


def _trainer_key(stream: str) -> str:
    return f"recd/{stream}/progress/trainer"
