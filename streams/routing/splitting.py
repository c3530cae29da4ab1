"""An Arrow message of many users as one message a partition.

Owns what such a slice is: the rows of one partition in their order, with the columns, dictionaries and metadata of the
whole. A message whose rows all belong to one partition stays the bytes that it is. Needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from streams.events.event import I64
from streams.events.formats.arrow_stream import opened

_WORTH_COMPRESSING: Final = 64 << 10
"""Bytes of columns from which on the buffers of a slice are compressed: whole messages may unpack to a lot."""


class Slice(NamedTuple):
    """Rows of one message that belong to one partition."""

    partition: int
    first: int
    """Its first row: the key of the slice is that row's user."""
    value: bytes


def split(value: bytes, rows: I64, partitions: I64) -> Iterator[Slice]:
    """The slices of a sound message, by partition.

    `rows`: [R], ascending, those that are routed. `partitions`: [R], where each belongs.
    """
    table = opened(value)
    used = np.unique(partitions).tolist()
    if len(used) == 1 and len(rows) == table.num_rows:
        yield Slice(used[0], 0, value)
        return
    for partition in used:
        chosen = rows[partitions == partition]
        yield Slice(partition, int(chosen[0]), _stream(table.take(pa.array(chosen))))


def _stream(table: pa.Table) -> bytes:
    options = pa.ipc.IpcWriteOptions(compression="lz4" if table.nbytes > _WORTH_COMPRESSING else None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
