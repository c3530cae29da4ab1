"""Parts of a message read by themselves, for tests: what a decoder does with one section, or with one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streams.unaligned import padded
from streams.wire import peek
from streams.wire.arena import read_columns
from streams.wire.layout import Header, aligned
from streams.wire.table import Section, read_table, write_table


def unpack(section: Section, buffer: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """The column of a section that is alone in its body. Raises WireError."""
    size = len(write_table([section]))
    placed = Section(**{name: getattr(section, name) for name in Section.__slots__} | {"position": aligned(size)})
    body = np.zeros(aligned(size) + len(buffer), np.uint8)
    body[:size] = np.frombuffer(write_table([placed]), np.uint8)
    body[aligned(size) :] = buffer
    header = header_of(1, size, len(body))
    return read_columns(read_table(header, padded(body)), padded(body)).column(0)


def sections_of(message: bytes, body: bytes) -> list[Section]:
    """Every line of a message's table."""
    table = read_table(peek(message), padded(np.frombuffer(body, np.uint8)))
    return [table.section(index) for index in range(len(table))]


def header_of(num_sections: int, table_bytes: int, body_bytes: int) -> Header:
    """The header of a body, as far as the body is concerned."""
    return Header(
        partition=0,
        sequence=0,
        samples=0,
        sessions=0,
        watermark_ms=0,
        fingerprint=0,
        num_sections=num_sections,
        table_bytes=table_bytes,
        body_bytes=body_bytes,
        stored_bytes=0,
        body_crc=0,
    )
