"""The header of a mini-batch message, the numbers that name things on the wire, and which sizes are believed.

Owns the header, its limits and every check of it. What lies in the body is `table`.

header   magic "RECD", u8 version, u8 flags, u16 sections, u32 partition, u32 samples, i64 sequence,
         i64 watermark_ms, u64 fingerprint, u32 body bytes, u32 stored bytes, u32 sessions, u32 table bytes,
         u32 CRC-32C of the stored body, u32 CRC-32C of the 60 bytes before

All little-endian, without gaps. Golden bytes in the tests pin every one of them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import google_crc32c
import numpy as np

from streams.errors import WireError
from streams.wire.dictionary import dictionary_of

MAGIC: Final = b"RECD"
VERSION: Final = 1
ZSTD: Final = 1
"""The flag of every message: the body is one zstd frame."""
DICTIONARY: Final = 2
"""The flag of a message whose frame names a trained dictionary, without which it cannot be read."""
ALIGNMENT: Final = 64
MAX_BODY_BYTES: Final = 1 << 28
"""Larger bodies are neither written nor believed."""
MAX_DECODED_BYTES: Final = 1 << 29
"""Columns that would need more memory than this after unpacking are neither written nor believed."""

_HEADER: Final = struct.Struct("<4sBBHIIqqQIIIII")
_CRC: Final = struct.Struct("<I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size


class Kind(IntEnum):
    """What a section holds. Values are on the wire: never renumber."""

    OFFSET = 1
    EVENT_ID = 2
    SESSION_ID = 3
    EVENT_TIME = 4
    APPENDED = 5
    LABELS = 6
    DENSE = 7
    IDS = 8
    """Values that several VALUES sections share, one section's after the other's."""
    NEGATIVE_RATE = 9
    """The share of negatives that was kept: the 64 bits of one float64, as uint64. Absent: 1."""
    STAGE = 10
    """`Stage` of each sample. Absent: all are settled."""
    INVERSE = 16
    """Begins a group and carries its name; the sections of its features follow."""
    LENGTHS = 17
    """Begins a feature and carries its key."""
    VALUES = 18
    WEIGHTS = 19
    GROUP_DENSE = 20
    """Dense columns of a group, behind its inverse; the names of the columns in one, with zero bytes between them."""
    START = 21
    """Says that the group is partial: its rows are windows of buffers, and they begin here."""
    WINDOW = 22
    """Lengths of the windows."""
    BUFFERS = 23
    """Lengths of the buffers; all features of the group share them, so VALUES begin each feature."""


class Encoding(IntEnum):
    """How a buffer becomes its column. Values are on the wire: never renumber."""

    PLAIN = 0
    """The array itself."""
    FIXED = 1
    """`width` bytes a value, unsigned, counted from `base`."""
    BITS = 2
    """`width` bits a value, counted from `base`, lowest bit first."""
    DELTA = 3
    """`width` bytes a value: the zigzag difference to the value before; before the first one comes `base`."""
    CONSTANT = 4
    """Every value is `base`; no bytes."""
    RUNS = 5
    """How often a value stands in a row, and the differences between those; see `runs`."""
    RANKED = 6
    """Ids by how often they come; see `ranked`."""
    SHARED = 7
    """The next values of the IDS section; no bytes."""
    FLOATS = 8
    """float32 by columns: runs, and the bytes of their heads by place; see `runs`."""
    PAIRED = 9
    """Ids by how often they come, two in a byte; see `paired`."""


DTYPES: Final[dict[int, np.dtype[Any]]] = {
    1: np.dtype("<i4"),
    2: np.dtype("<i8"),
    3: np.dtype("<u8"),
    4: np.dtype("<f4"),
}
INT32, INT64, UINT64, FLOAT32 = DTYPES
DTYPE_CODES: Final = {dtype: code for code, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a message says about itself without being decompressed."""

    partition: int
    sequence: int
    samples: int
    sessions: int
    watermark_ms: int
    fingerprint: int
    num_sections: int
    table_bytes: int
    body_bytes: int
    """Size of the body once decompressed."""
    stored_bytes: int
    """Size of the body as it is in the message."""
    body_crc: int
    dictionary: int = 0
    """Id of the zstd dictionary that the body needs; 0 where it needs none."""


def aligned(position: int) -> int:
    """The next position at which a buffer may begin."""
    return -(-position // ALIGNMENT) * ALIGNMENT


def write_header(header: Header) -> bytes:
    """The 64 bytes in front of the body."""
    h = header
    flags = ZSTD | (DICTIONARY if h.dictionary else 0)
    head = _HEADER.pack(
        MAGIC, VERSION, flags, h.num_sections, h.partition, h.samples, h.sequence, h.watermark_ms, h.fingerprint,
        h.body_bytes, h.stored_bytes, h.sessions, h.table_bytes, h.body_crc,
    )  # fmt: skip
    return head + _CRC.pack(google_crc32c.value(head))


def read_header(data: bytes | memoryview) -> Header:
    """Raises WireError for anything but a whole, undamaged message header of a version we know."""
    if len(data) < HEADER_BYTES:
        raise WireError(f"a mini-batch has at least {HEADER_BYTES} bytes, this has {len(data)}: it was cut off")
    head = bytes(data[: _HEADER.size])
    magic, version, flags, num_sections, partition, samples, sequence, watermark_ms, fingerprint, *sizes = (
        _HEADER.unpack(head)
    )
    if magic != MAGIC:
        raise WireError(f"not a mini-batch: it begins with {magic!r}, not {MAGIC!r}")
    if version > VERSION:
        raise WireError(f"written in version {version} of the format, this recd reads up to {VERSION}: update it")
    if _CRC.unpack(data[_HEADER.size : HEADER_BYTES])[0] != google_crc32c.value(head):
        raise WireError("the header is damaged: its CRC-32C does not match")
    if version < 1 or flags not in (ZSTD, ZSTD | DICTIONARY):
        raise WireError(f"version {version} with flags {flags} does not exist")
    body_bytes, stored_bytes, sessions, size_of_table, body_crc = sizes
    if stored_bytes != len(data) - HEADER_BYTES:
        raise WireError(f"the header announces a body of {stored_bytes} bytes, {len(data) - HEADER_BYTES} are there")
    if body_bytes > MAX_BODY_BYTES:
        raise WireError(f"a body of {body_bytes} bytes is above the limit of {MAX_BODY_BYTES}")
    if size_of_table > body_bytes:
        raise WireError(f"a section table of {size_of_table} bytes does not fit into a body of {body_bytes}")
    if sequence < 0:
        raise WireError(f"sequence {sequence} is negative")
    return Header(
        partition=partition,
        sequence=sequence,
        samples=samples,
        sessions=sessions,
        watermark_ms=watermark_ms,
        fingerprint=fingerprint,
        num_sections=num_sections,
        table_bytes=size_of_table,
        body_bytes=body_bytes,
        stored_bytes=stored_bytes,
        body_crc=body_crc,
        dictionary=dictionary_of(memoryview(data)[HEADER_BYTES:]) if flags & DICTIONARY else 0,
    )
