"""Parquet: one message a row, read in batches.

Owns how Arrow's types become JSON: timestamps are ISO strings (set event.time_unit = "iso"), binary columns are
text, NaN is null (as pandas means it), infinities stay visible as strings. Never holds more than a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streams.errors import ConfigError
from streams.files.line import Line

_ROWS: Final = 4096


def read_parquet(path: Path) -> Iterator[Line]:
    """All rows. Raises ConfigError if the file is not Parquet or a column cannot be JSON."""
    encode = msgspec.json.Encoder().encode
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS):
                for row in _plain(batch).to_pylist():
                    number += 1
                    yield Line(number, encode(row))
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as Parquet after row {number}: {error}") from error


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_plain_column(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _plain_column(column: pa.Array[Any]) -> pa.Array[Any]:
    kind = column.type
    if isinstance(column, pa.DictionaryArray):
        return _plain_column(column.dictionary_decode())
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        # JSON times have microseconds at most; an event needs milliseconds.
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind) and pc.any(pc.is_inf(column)).as_py():
        finite_or_null: pa.Array[Any] = pc.if_else(pc.is_nan(column), None, column)
        return finite_or_null.cast(pa.string())
    return column
