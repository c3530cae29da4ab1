"""The section table: what each buffer of a body is, how it is packed and where it lies.

Owns the layout of a line, and every check that needs no look into a buffer.

    u8 kind, u8 dtype, u8 encoding, u8 width, u16 name bytes, u16 columns, u32 count, u32 position, u32 size,
    i64 base, name in UTF-8

All little-endian, without gaps. A table is read into one matrix by compiled code: a message has over a hundred
sections, and an object for each would cost as much as decoding them. Shapes: S sections.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.errors import WireError
from streams.ikjt.kernels import compiled
from streams.unaligned import load_u32, load_u64
from streams.wire import damage
from streams.wire.layout import ALIGNMENT, DTYPE_CODES, DTYPES, MAX_DECODED_BYTES, Encoding, Header, Kind

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_SECTION: Final = struct.Struct("<BBBBHHIIIq")
LINE_BYTES: Final = _SECTION.size
KIND, DTYPE, ENCODING, WIDTH, COLUMNS, COUNT, POSITION, SIZE, BASE, NAME_AT, NAME_BYTES = range(11)
"""Columns of `Table.lines`."""
_FIELDS: Final = 11
_KNOWN: Final = np.zeros((3, 256), np.bool_)
_KNOWN[0, list(Kind)] = _KNOWN[1, list(DTYPES)] = _KNOWN[2, list(Encoding)] = True
_SHARED: Final = int(Encoding.SHARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One line of the section table."""

    kind: Kind
    dtype: np.dtype[Any]
    encoding: Encoding
    width: int
    """Bytes or bits a value, as the encoding says; 0 where it does not matter."""
    name: str
    columns: int
    """Columns of a matrix; 1 for everything else."""
    count: int
    """Values, over all columns."""
    position: int
    """Where the buffer begins in the body."""
    size: int
    """Bytes of the buffer."""
    base: int

    def __str__(self) -> str:
        return f"section {self.kind.name.lower()}{f' of {self.name}' if self.name else ''}"


def table_bytes(names: Sequence[str]) -> int:
    """Size of a section table with these names."""
    return sum(LINE_BYTES + len(name.encode()) for name in names)


def write_table(sections: Sequence[Section]) -> bytes:
    """The section table, the first thing in the body."""
    parts: list[bytes] = []
    for s in sections:
        name = s.name.encode()
        code = DTYPE_CODES[s.dtype]
        fixed = (s.kind, code, s.encoding, s.width, len(name), s.columns, s.count, s.position, s.size, s.base)
        parts += [_SECTION.pack(*fixed), name]
    return b"".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The lines of a section table that was read."""

    lines: I64
    """[S, 11]."""
    names: bytes
    """The table itself, in which the names lie."""

    def __len__(self) -> int:
        return len(self.lines)

    def each_name(self) -> list[bytes]:
        """[S], the names in UTF-8."""
        sizes = self.lines[:, NAME_BYTES].tolist()
        starts = self.lines[:, NAME_AT].tolist()
        return [self.names[start : start + size] for start, size in zip(starts, sizes, strict=True)]

    def name(self, index: int) -> str:
        """The name of a section. Raises WireError if it is not UTF-8."""
        start, size = self.lines[index, NAME_AT], self.lines[index, NAME_BYTES]
        return utf8(self.names[start : start + size], index)

    def section(self, index: int) -> Section:
        """One line, for people and for messages."""
        line = self.lines[index].tolist()
        return Section(
            kind=Kind(line[KIND]),
            dtype=DTYPES[line[DTYPE]],
            encoding=Encoding(line[ENCODING]),
            width=line[WIDTH],
            name=self.name(index),
            columns=line[COLUMNS],
            count=line[COUNT],
            position=line[POSITION],
            size=line[SIZE],
            base=line[BASE],
        )

    def refusal(self, index: int, what: int) -> WireError:
        """What is wrong with a section, in words."""
        s = self.section(index)
        words = damage.WORDS[what].format(
            size=s.size,
            count=s.count,
            width=s.width,
            columns=s.columns,
            dtype=s.dtype,
            encoding=s.encoding.name.lower(),
        )
        return WireError(f"{s} {words}")


def read_table(header: Header, body: U8) -> Table:
    """Every section, checked to lie where it must and to need no more memory than the limit. Raises WireError.

    The body is padded.
    """
    if header.num_sections * LINE_BYTES > header.table_bytes:
        raise WireError(f"the section table ends inside section {header.table_bytes // LINE_BYTES}")
    lines = np.zeros((header.num_sections, _FIELDS), np.int64)
    index, what, end = _read(body, header.table_bytes, header.body_bytes, lines)
    table = Table(lines, body[: header.table_bytes].tobytes())
    if what == damage.LINE:
        raise WireError(f"the section table ends inside section {index}")
    if what == damage.NAME:
        raise WireError(f"the section table ends inside the name of section {index}")
    if what == damage.UNKNOWN:
        raise WireError(f"section {index} is of a kind, dtype or encoding we do not know")
    if what:
        raise table.refusal(index, what)
    if end != header.table_bytes:
        raise WireError(f"the section table has {header.table_bytes - end} bytes too many")
    return table


def utf8(name: bytes, index: int) -> str:
    """The name of a section as a string. Raises WireError if it is none."""
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise WireError(f"the name of section {index} is not UTF-8: {error}") from error


@compiled
def _read(body: U8, table_bytes: int, body_bytes: int, lines: I64) -> tuple[int, int, int]:
    """Fills the lines. Returns the section that is wrong, what is wrong with it, and where the table ended."""
    at, decoded, expected = 0, 0, -(-table_bytes // ALIGNMENT) * ALIGNMENT
    for s in range(len(lines)):
        if at + LINE_BYTES > table_bytes:
            return s, damage.LINE, at
        line = lines[s]
        for field in range(4):
            line[field] = body[at + field]
        both = load_u32(body, at + 4)
        line[NAME_BYTES], line[COLUMNS] = both & 0xFFFF, both >> 16
        line[COUNT], line[POSITION], line[SIZE] = (
            load_u32(body, at + 8),
            load_u32(body, at + 12),
            load_u32(body, at + 16),
        )
        line[BASE] = np.int64(load_u64(body, np.uint64(at + 20)))
        at += LINE_BYTES
        line[NAME_AT] = at
        if at + line[NAME_BYTES] > table_bytes:
            return s, damage.NAME, at
        if not (_KNOWN[0, line[KIND]] and _KNOWN[1, line[DTYPE]] and _KNOWN[2, line[ENCODING]]):
            return s, damage.UNKNOWN, at
        at += line[NAME_BYTES]
        if line[POSITION] != expected or expected + line[SIZE] > body_bytes:
            return s, damage.PLACE, at
        expected = -(-(expected + line[SIZE]) // ALIGNMENT) * ALIGNMENT
        if line[ENCODING] != _SHARED:  # those are views of the ids, which are counted
            decoded += 8 * line[COUNT]
        if decoded > MAX_DECODED_BYTES:
            return s, damage.MEMORY, at
    return 0, damage.NONE, at
