"""Files of mini-batches in Parquet: a line a batch, in the layout of `arrow`, and one row group a line.

Owns the file: one column more, `content_hash` (uint64, `MiniBatch.content_hash`), Parquet's own page checksums, and
what of a damaged or foreign file becomes a WireError in words. A file without its footer, which is written last, is
no Parquet file; so a writer that died leaves nothing that could be read as less than there was.

Reading trusts nothing: what a file claims to unpack to is held against a limit first, and what comes out has passed
the checksums, `MiniBatch.validate`, and the hash of its content. Floats keep every bit.

A file read with `pyarrow.parquet`, DuckDB or Polars has the same columns; `content_hash` is what a writer of other
content must leave to this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from streams.errors import WireError
from streams.exchange.arrow import from_arrow, integer, line_of, to_arrow
from streams.minibatch import MiniBatch

MAX_LINE_BYTES: Final = 1 << 29
"""Bytes that one mini-batch may unpack to; the same as on the wire."""

HASH: Final = "content_hash"


def write_parquet(path: Path, batches: Iterable[MiniBatch]) -> int:
    """Writes the file and returns the number of mini-batches in it. There is no file until all of it is written.

    Raises ValueError for a batch that breaks its own invariants, that differs from the first one in its features,
    their types or columns, or that is too large; and if there is none at all, since a file has its columns from one.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with unfinished.open("wb") as file:
            count = _write(file, batches)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def read_parquet(path: Path) -> Iterator[MiniBatch]:
    """Every mini-batch of the file, one at a time, with arrays of its own. Raises WireError for whatever is wrong."""
    with path.open("rb") as file:
        place = 0
        try:
            reader = pq.ParquetFile(file, page_checksum_verification=True)
            for group in range(reader.num_row_groups):
                _check_size(reader, group)
                for line in reader.iter_batches(batch_size=1, row_groups=[group], use_threads=False):
                    yield _read_line(line)
                    place += 1
        except (pa.ArrowException, OSError, ValueError, UnicodeDecodeError) as error:
            raise WireError(f"{path}: mini-batch {place} cannot be read: {error}") from error


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
    return count


def _line(batch: MiniBatch) -> pa.RecordBatch:
    hashed: Any = pa.array([batch.content_hash], pa.uint64())
    return to_arrow(batch).append_column(pa.field(HASH, pa.uint64(), nullable=False), hashed)


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
    if HASH not in columns:
        raise ValueError(f"there is no column {HASH}; write the file with streams.exchange.parquet")
    announced = integer(columns[HASH], HASH, pa.uint64())
    batch = from_arrow(line.drop_columns([HASH]), copy=True)
    if batch.content_hash != announced:
        raise ValueError(f"column {HASH} is {announced:016x}, but what is there hashes to {batch.content_hash:016x}")
    return batch
