"""What Kafka remembers of a partition: its progress, and its latest cut in chunks.

Owns the records of the cuts topic and how they are encoded. Never reads or writes Kafka.

Partition p of the compacted cuts topic holds, for partition p of the interactions:

    key `progress/<p>`    `Progress` as JSON; the last record of every transaction of the partition
    key `cut/<p>/<k>`     chunk k of a cut; its first 8 bytes are the cut's number, big-endian

The progress record also says where the latest cut is, so recovery reads the end of the partition and then the
chunks, never the whole topic. The chunks of a cut and the progress record that names it are one transaction.
A cut counts only if every chunk carries its number and the checksum agrees: no mixture of two is ever accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import google_crc32c
import msgspec
from msgspec import UNSET, UnsetType

from streams.errors import InvariantError
from streams.inputs import Position

VERSION: Final = 1
VERSION_OF_TWO: Final = 2
"""Where outcomes have a topic of their own. What is unset there is as before."""
_NUMBER_BYTES: Final = 8


class CutRef(msgspec.Struct, frozen=True, kw_only=True):
    """Which cut is the latest one, where it is, and what is to be done on top of it."""

    number: int
    """1, 2, 3… within the partition."""
    first_offset: int
    """Offset in the cuts partition of a record at or before its first chunk."""
    chunks: int
    size_bytes: int
    crc32c: int
    next_offset: int
    """First offset of the interactions partition that is not in the cut: where to read on."""
    clock_offset: int
    """First offset of the clock partition that may hold a mark which has not taken effect in the cut."""
    applied: tuple[int, ...] = ()
    """Clock offsets of the marks that have taken effect at exactly `next_offset`."""
    ended_at: int = -1
    """Offset at which the last end mark took effect; -1: none has."""
    profiles_offset: int = 0
    """First offset of the profiles' changelog that is not part of the state at this cut."""
    next_outcome: int | UnsetType = UNSET
    """As `next_offset`, of the outcomes where they have a topic of their own."""
    ended_outcome: int | UnsetType = UNSET
    """As `ended_at`, likewise."""

    @property
    def position(self) -> Position:
        """Where to read on."""
        return Position(self.next_offset, _or_zero(self.next_outcome))

    @property
    def ended(self) -> Position | None:
        """Where the last end mark took effect."""
        return None if self.ended_at < 0 else Position(self.ended_at, _or_zero(self.ended_outcome))


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What has been emitted for good. Everything below these numbers is suppressed when it is made again."""

    next_offset: int = 0
    """Dead letters of smaller offsets have been sent."""
    next_sequence: int = 0
    """Mini-batches of smaller sequence have been emitted."""
    next_epoch: int = 0
    """End records of smaller epochs have been emitted."""
    clock_offset: int = 0
    """Requests at smaller offsets of the clock partition had been read when this was written."""
    cut: CutRef | None = None
    source: str = ""
    """Topic of the interactions; the outlet fills it in. Two sources may not share a mini-batch topic."""
    topic_ids: dict[str, str] = {}
    """Ids that the topics read and written had, by name; the outlet fills them in. Empty where a broker tells none."""
    version: int = VERSION
    next_outcome: int | UnsetType = UNSET
    """As `next_offset`, of the outcomes where they have a topic of their own."""
    outcomes: str | UnsetType = UNSET
    """That topic; the outlet fills it in."""

    @property
    def position(self) -> Position:
        """Dead letters of records before it have been sent."""
        return Position(self.next_offset, _or_zero(self.next_outcome))

    def encode(self) -> bytes:
        """As one line of JSON."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(data: bytes) -> Progress:
        """Raise InvariantError on anything that this version did not write."""
        try:
            progress = msgspec.json.decode(data, type=Progress)
        except msgspec.MsgspecError as error:
            raise InvariantError(
                f"a progress record cannot be read: {error}; who else writes into the cuts topic?"
            ) from error
        if progress.version not in {VERSION, VERSION_OF_TWO}:
            raise InvariantError(
                f"progress was written by version {progress.version}, this reads up to {VERSION_OF_TWO}; upgrade recd"
            )
        return progress


def _or_zero(offset: int | UnsetType) -> int:
    return 0 if offset is UNSET else offset


def progress_key(partition: int) -> bytes:
    """Key of the progress record."""
    return f"progress/{partition}".encode()


def chunk_key(partition: int, index: int) -> bytes:
    """Key of one chunk of a cut."""
    return f"cut/{partition}/{index}".encode()


def chunk_index(key: bytes) -> int | None:
    """Which chunk a key names; None for other keys."""
    name, _, rest = key.partition(b"/")
    index = rest.rpartition(b"/")[2]
    return int(index) if name == b"cut" and index.isdigit() else None


def to_chunks(data: bytes, number: int, chunk_bytes: int) -> list[bytes]:
    """Values of the chunk records of cut `number`; at least one."""
    mark = number.to_bytes(_NUMBER_BYTES, "big")
    return [mark + data[start : start + chunk_bytes] for start in range(0, max(1, len(data)), chunk_bytes)]


def checksum(data: bytes) -> int:
    """CRC-32C of a whole cut."""
    return int(google_crc32c.value(data))


def from_chunks(cut: CutRef, chunks: Mapping[int, bytes]) -> bytes | None:
    """The cut that `cut` names; None if a chunk is missing, belongs to another cut or is damaged."""
    mark = cut.number.to_bytes(_NUMBER_BYTES, "big")
    found = [chunks.get(index) for index in range(cut.chunks)]
    if any(chunk is None or chunk[:_NUMBER_BYTES] != mark for chunk in found):
        return None
    data = b"".join(chunk[_NUMBER_BYTES:] for chunk in found if chunk is not None)
    return data if len(data) == cut.size_bytes and checksum(data) == cut.crc32c else None
