"""Files of mini-batches in Parquet: a line a batch, in the layout of `arrow`, and one row group a line.

Owns the file, its checksums, and what of a damaged or foreign file becomes a WireError in words.

- Pages have Parquet's own checksums.
- The footer has none in Parquet, and Arrow's reader ends the process over some damage in it. So its CRC-32C stands
  before it, where other readers do not look: `RCD1`, then the CRC as uint32, little endian, then the footer. Arrow
  sees a footer only after it was found whole.
- What stands between pages has none either, so the column `checksum` (uint64) is of all that a mini-batch holds,
  offsets, clocks and forms included. An inverse that stays in range but names other rows is found by it too.

Reading trusts nothing but that nobody forged a footer's CRC: what a file claims to unpack to is held against a limit
first, and what comes out has passed the checksums and `MiniBatch.validate`. Floats keep every bit.

Other tools read the file as any Parquet. What they write is read by `pyarrow.parquet` and `arrow.from_arrow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from os import SEEK_END
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from streams.errors import WireError
from streams.exchange.arrays import to_arrays
from streams.exchange.arrow import from_arrow, integer, line_of, to_arrow
from streams.minibatch import MiniBatch

MAX_LINE_BYTES: Final = 1 << 29
"""Bytes that one mini-batch may unpack to; the same as on the wire."""

CHECKSUM: Final = "checksum"

_MAGIC: Final = b"RCD1"
_SEAL: Final = Struct("<4sI")
_TAIL: Final = Struct("<I4s")


def write_parquet(path: Path | str, batches: Iterable[MiniBatch]) -> int:
    """Writes the file and returns the number of mini-batches in it. There is no file until all of it is written.

    Raises ValueError for a batch that breaks its own invariants, that differs from the first one in its features,
    their types or columns, or that is too large; and if there is none at all, since a file has its columns from one.
    """
    path = Path(path)
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with unfinished.open("w+b") as file:
            count = _write(file, batches)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def read_parquet(path: Path | str) -> Iterator[MiniBatch]:
    """Every mini-batch of the file, one at a time, with arrays of its own. Raises WireError for whatever is wrong."""
    with Path(path).open("rb") as file:
        place = 0
        try:
            for batch in _read(file):
                yield batch
                place += 1
        except (pa.ArrowException, OSError, ValueError) as error:
            raise WireError(f"{path}: mini-batch {place} cannot be read: {error}") from error


def _read(file: BinaryIO) -> Iterator[MiniBatch]:
    _check_seal(file)
    reader = pq.ParquetFile(file, page_checksum_verification=True)
    for group in range(reader.num_row_groups):
        _check_size(reader, group)
        lines = 0
        for line in reader.iter_batches(batch_size=1, row_groups=[group], use_threads=False):
            yield _read_line(line)
            lines += 1
        announced = reader.metadata.row_group(group).num_rows
        if lines != announced:
            raise ValueError(f"row group {group} ends after {lines} of {announced} lines")


def _write(file: BinaryIO, batches: Iterable[MiniBatch]) -> int:
    each = iter(batches)
    first = next(each, None)
    if first is None:
        raise ValueError("no mini-batches to write; give at least one")
    schema = _line(first).schema
    count = 0
    with _writer(file, schema) as writer:
        for batch in chain([first], each):
            line = _line(batch)
            if line.nbytes > MAX_LINE_BYTES:
                raise ValueError(f"mini-batch {count} has {line.nbytes} bytes, more than {MAX_LINE_BYTES}; split it")
            if line.schema != schema:
                raise ValueError(
                    f"mini-batch {count} {_difference(schema, line.schema)}; write it to a file of its own"
                )
            writer.write_batch(line)
            count += 1
    _seal(file)
    return count


def _seal(file: BinaryIO) -> None:
    """Puts the CRC of the footer before it."""
    size = file.seek(0, SEEK_END)
    start, footer = _footer(file, size)
    file.seek(start)
    file.write(_SEAL.pack(_MAGIC, google_crc32c.value(footer)) + footer)


def _check_seal(file: BinaryIO) -> None:
    """Raises ValueError unless the footer is there, and is the one that was written."""
    start, footer = _footer(file, file.seek(0, SEEK_END))
    if start < _SEAL.size:
        raise ValueError("the file is too short")
    file.seek(start - _SEAL.size)
    magic, announced = _SEAL.unpack(file.read(_SEAL.size))
    if magic != _MAGIC:
        raise ValueError("it was not written by streams.exchange.parquet; use pyarrow.parquet and arrow.from_arrow")
    if announced != google_crc32c.value(footer):
        raise ValueError("the footer is damaged: its CRC-32C does not match")


def _footer(file: BinaryIO, size: int) -> tuple[int, bytes]:
    """Where the footer begins, and all bytes from there, its length and Parquet's magic included."""
    file.seek(max(0, size - _TAIL.size))
    tail = file.read()
    length, magic = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, b"")
    start = size - _TAIL.size - length
    if magic != b"PAR1" or start < 0:
        raise ValueError("it is no Parquet file, or not all of one")
    file.seek(start)
    return start, file.read()


def _line(batch: MiniBatch) -> pa.RecordBatch:
    hashed: Any = pa.array([checksum(batch)], pa.uint64())
    return to_arrow(batch).append_column(pa.field(CHECKSUM, pa.uint64(), nullable=False), hashed)


def _writer(file: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    # Without dictionaries: ids are drawn from so many that dictionaries only add to them, and floats keep every bit.
    return pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=False, write_page_checksum=True, write_statistics=False
    )


def _difference(first: pa.Schema, other: pa.Schema) -> str:
    """By which column a batch does not fit into the file."""
    for name in first.names:
        if name not in other.names:
            return f"has no {name}, which the first one has"
        if other.field(name).type != first.field(name).type:
            return f"has {name} of {other.field(name).type}, the first one of {first.field(name).type}"
    return f"has {', '.join(other.names)}, the first one {', '.join(first.names)}"


def _check_size(reader: pq.ParquetFile, group: int) -> None:
    columns = reader.metadata.row_group(group)
    values = sum(columns.column(c).num_values for c in range(columns.num_columns))
    if max(columns.total_byte_size, 8 * values) > MAX_LINE_BYTES:
        raise ValueError(
            f"row group {group} unpacks to {columns.total_byte_size} bytes of {values} values, more than "
            f"{MAX_LINE_BYTES} bytes; write one mini-batch a row group, and smaller ones"
        )


def _read_line(line: pa.RecordBatch) -> MiniBatch:
    columns = line_of(line, 0)
    if CHECKSUM not in columns:
        raise ValueError(f"there is no column {CHECKSUM}; write the file with streams.exchange.parquet")
    announced = integer(columns[CHECKSUM], CHECKSUM, pa.uint64())
    batch = from_arrow(line.drop_columns([CHECKSUM]), copy=True)
    found = checksum(batch)
    if found != announced:
        raise ValueError(f"column {CHECKSUM} is {announced:016x}, but what is there has {found:016x}")
    return batch


def checksum(batch: MiniBatch) -> int:
    """64 bits of every name, type, shape and value of a mini-batch: xxh3 of its arrays one after the other."""
    digest = xxhash.xxh3_64()
    for name, array in to_arrays(batch).items():
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.intdigest()
