"""A mini-batch to sections and back.

Owns the order of the sections: lineage, labels, dense, rate and stages (`labelling`), ids that features share, then one
group after the other. The sections of a group are `groups`, the bytes of header and table `layout`.

Reading trusts nothing: sizes are held against limits before memory is taken, and what comes out keeps every promise
of `MiniBatch.validate`, most of it proved while decoding. Every failure is a WireError.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import zstandard

from streams.errors import WireError
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.windows import Group
from streams.minibatch import LINEAGE_DTYPES, Lineage, MiniBatch
from streams.unaligned import PADDING
from streams.wire import layout
from streams.wire.arena import read_columns
from streams.wire.dictionary import DICTIONARY_BYTES, Provider, loaded, provided, train
from streams.wire.groups import check_windows, columns_of, read_group, stored
from streams.wire.labelling import columns_of_labelling, read_labelling
from streams.wire.layout import Encoding, Header, Kind
from streams.wire.packing import pack, pack_matrix, pack_together
from streams.wire.sections import Column, Sections
from streams.wire.table import Section, read_table, table_bytes, write_table

Array = npt.NDArray[Any]

_LINEAGE = {
    "offset": Kind.OFFSET,
    "event_id": Kind.EVENT_ID,
    "session_id": Kind.SESSION_ID,
    "event_time_ms": Kind.EVENT_TIME,
    "appended_ms": Kind.APPENDED,
}


def encode(batch: MiniBatch, *, level: int = 3, dictionary: bytes | None = None) -> bytes:
    """The message of a mini-batch, with a trained dictionary if one is given: then every reader needs it too.

    Raises ValueError for a batch that breaks its own invariants or the limits.
    """
    if not isinstance(batch, MiniBatch):
        raise TypeError(f"a message holds a MiniBatch, not {type(batch).__name__}; groups go into one with labels")
    batch.validate()
    check_windows(batch.groups)
    try:
        return _encoded(batch, level, dictionary)
    except struct.error as error:
        raise ValueError(f"a name, a number of columns or a position is beyond the format: {error}") from error


def _encoded(batch: MiniBatch, level: int, dictionary: bytes | None) -> bytes:
    compressor = zstandard.ZstdCompressor(level=level)
    body, sections, size_of_table = _write_body(batch, compressor)
    if dictionary is not None:
        compressor = zstandard.ZstdCompressor(level=level, dict_data=loaded(dictionary))
    stored = compressor.compress(body)
    header = Header(
        partition=batch.partition,
        sequence=batch.sequence,
        samples=len(batch),
        sessions=batch.num_sessions,
        watermark_ms=batch.watermark_ms,
        fingerprint=batch.fingerprint,
        num_sections=len(sections),
        table_bytes=size_of_table,
        body_bytes=len(body),
        stored_bytes=len(stored),
        body_crc=google_crc32c.value(stored),
        dictionary=0 if dictionary is None else loaded(dictionary).dict_id(),
    )
    return layout.write_header(header) + stored


def peek(data: bytes | memoryview) -> Header:
    """What the message says about itself, without decompressing it. Raises WireError."""
    return layout.read_header(data)


def decode(data: bytes | memoryview, *, dictionary: Provider | None = None) -> MiniBatch:
    """The mini-batch of a message. All its columns are views of one memory. Raises WireError.

    `dictionary` gives the trained dictionary of an id, or None; a message that needs one which it lacks is refused.
    """
    header = layout.read_header(data)
    body = _decompress(header, memoryview(data)[layout.HEADER_BYTES :], dictionary)
    sections = Sections(read_columns(read_table(header, body), body))
    del body
    try:
        batch = _read_batch(header, sections)
        check_windows(batch.groups)
    except ValueError as error:
        raise WireError(f"the message holds an impossible mini-batch: {error}") from error
    if batch.num_sessions != header.sessions:
        raise WireError(f"the header announces {header.sessions} sessions, {batch.num_sessions} are there")
    return batch


def train_dictionary(messages: Iterable[bytes], *, size: int = DICTIONARY_BYTES, level: int = 3) -> bytes:
    """A dictionary for messages like these, written without one. Raises WireError for anything but messages.

    It pays for small messages of many sections only (`docs/wire.md`). Raises ValueError for too few of them.
    """
    bodies = []
    for message in messages:
        header = layout.read_header(message)
        body = _decompress(header, memoryview(message)[layout.HEADER_BYTES :], None)
        bodies.append(body[: header.body_bytes].tobytes())
    return train(bodies, size, level)


def kjt_bytes(batch: MiniBatch, *, level: int = 3) -> int:
    """Size of the message if every sample carried its own rows, as in a KJT: same codec, same level."""
    inverse = np.arange(len(batch), dtype=np.int32)
    groups = tuple(
        Ikjt(group.group, group.expand(), inverse, group.expand_dense(), group.dense_names) for group in batch.groups
    )
    return len(encode(replace(batch, groups=groups), level=level))


def _columns(batch: MiniBatch, compressor: zstandard.ZstdCompressor) -> Iterator[Column]:
    """Every section in order."""
    for name, kind in _LINEAGE.items():
        column = getattr(batch.lineage, name)
        yield Column(kind, column, pack(column, compressor, rising=kind is not Kind.EVENT_ID))
    for kind, matrix in ((Kind.LABELS, batch.labels), (Kind.DENSE, batch.dense)):
        yield Column(kind, matrix, pack_matrix(matrix, compressor), columns=matrix.shape[1])
    yield from columns_of_labelling(batch, compressor)
    shared, values = pack_together([rows.values for group in batch.groups for rows in stored(group)], compressor)
    if shared is not None:
        yield Column(Kind.IDS, *shared)
    each = iter(values)
    for group in batch.groups:
        yield from columns_of(group, compressor, each)


def _write_body(batch: MiniBatch, compressor: zstandard.ZstdCompressor) -> tuple[bytearray, list[Section], int]:
    """Body, its sections and the size of their table."""
    columns = list(_columns(batch, compressor))
    size_of_table = table_bytes([column.name for column in columns])
    sections: list[Section] = []
    end = size_of_table
    for column in columns:
        position = layout.aligned(end)
        sections.append(
            Section(
                kind=column.kind,
                dtype=column.array.dtype,
                encoding=column.packed.encoding,
                width=column.packed.width,
                name=column.name,
                columns=column.columns,
                count=column.array.size,
                position=position,
                size=len(column.packed),
                base=column.packed.base,
            )
        )
        end = position + len(column.packed)
    decoded_bytes = sum(8 * column.array.size for column in columns if column.packed.encoding is not Encoding.SHARED)
    if end > layout.MAX_BODY_BYTES or decoded_bytes > layout.MAX_DECODED_BYTES:
        raise ValueError(f"a mini-batch of {end} bytes is above the limit of the format; make smaller batches")
    body = bytearray(end)
    body[:size_of_table] = write_table(sections)
    for section, column in zip(sections, columns, strict=True):
        body[section.position : section.position + section.size] = column.packed.buffer
    return body, sections, size_of_table


def _decompress(header: Header, stored: memoryview, provider: Provider | None) -> npt.NDArray[np.uint8]:
    """The body in memory of its own, padded."""
    # An array is taken without a copy where a memoryview is not.
    if google_crc32c.value(np.frombuffer(stored, np.uint8)) != header.body_crc:
        raise WireError("the body is damaged: its CRC-32C does not match")
    known = provided(header.dictionary, provider) if header.dictionary else None
    try:
        announced = zstandard.frame_content_size(stored)
        if announced != header.body_bytes:
            raise WireError(f"the header announces {header.body_bytes} bytes, the compressed body {announced}")
        body = np.empty(header.body_bytes + PADDING, np.uint8)
        body[header.body_bytes :] = 0
        with zstandard.ZstdDecompressor(dict_data=known).stream_reader(stored) as reader:
            found = reader.readinto(body[: header.body_bytes].data) if header.body_bytes else 0
    except zstandard.ZstdError as error:
        raise WireError(f"the body cannot be decompressed: {error}") from error
    if found != header.body_bytes:
        raise WireError(f"the body ends after {found} of {header.body_bytes} bytes")
    end = frame_bytes(stored)
    if end != len(stored):
        raise WireError(f"the compressed body ends at byte {end}, but {len(stored)} bytes are stored")
    return body


def frame_bytes(stored: memoryview) -> int:
    """Where the zstd frame, known to be whole, ends: its header, blocks behind 3 bytes each, and 4 of its checksum."""
    end, last = zstandard.frame_header_size(stored), False
    while not last and end < len(stored):
        head = int.from_bytes(stored[end : end + 3], "little")
        last = bool(head & 1)
        repeated = head >> 1 & 3 == 1
        end += 3 + (1 if repeated else head >> 3)
    return end + 4 * zstandard.get_frame_parameters(stored).has_checksum


def _read_batch(header: Header, sections: Sections) -> MiniBatch:
    """Takes every section; the batch keeps the promises of `MiniBatch.validate`. Raises WireError or ValueError."""
    if header.partition >= 2**31:
        raise WireError(f"partition {header.partition} does not exist")
    lineage = Lineage(**{name: _lineage(header, sections, name) for name in _LINEAGE})
    labels, dense = (_matrix(header, sections, kind) for kind in (Kind.LABELS, Kind.DENSE))
    rate, stage = read_labelling(sections, header.samples)
    if sections.upcoming() == Kind.IDS:
        sections.take(Kind.IDS)
    groups: list[Group] = []
    while sections.upcoming():
        groups.append(read_group(sections))
        if groups[-1].num_samples != header.samples:
            raise WireError(
                f"group {groups[-1].group} has {groups[-1].num_samples} samples, the lineage {header.samples}"
            )
    _refuse_repeated("group", [group.group for group in groups])
    _refuse_repeated("feature", [key for group in groups for key in group.keys])
    _refuse_repeated("dense column", [name for group in groups for name in group.dense_names])
    return MiniBatch(
        partition=header.partition,
        sequence=header.sequence,
        watermark_ms=header.watermark_ms,
        fingerprint=header.fingerprint,
        lineage=lineage,
        labels=labels,
        dense=dense,
        groups=tuple(groups),
        negative_rate=rate,
        stage=stage,
    )


def _lineage(header: Header, sections: Sections, name: str) -> Array:
    """[B]."""
    index = sections.take(_LINEAGE[name], layout.DTYPE_CODES[LINEAGE_DTYPES[name]])
    if sections.counts[index] != header.samples:
        raise WireError(f"{sections.words(index)} has {sections.counts[index]} samples, the header {header.samples}")
    return sections.column(index)


def _matrix(header: Header, sections: Sections, kind: Kind) -> Array:
    """[B, columns]."""
    index = sections.take(kind, layout.FLOAT32)
    return sections.matrix(index, header.samples)


def _refuse_repeated(what: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = min(name for name, count in Counter(names).items() if count > 1)
        raise WireError(f"{what} {twice} is there twice; names must be unique")
