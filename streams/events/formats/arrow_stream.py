"""Arrow streams: a message to a table, and one row of a table to a message.

Owns what a message may be before any field of it is read: no more events and no more bytes than fit, and not damaged.
Compressed buffers are measured before they are unpacked, since a few bytes can unpack to any number.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa

from streams.errors import PoisonError, Reason

MOST_ROWS: Final = 1 << 17
"""Fewer events than this may be in one message."""
MOST_BYTES: Final = 64 << 20
"""Most bytes of its compressed buffers, unpacked."""
_BROKEN: Final = (
    pa.ArrowException, ValueError, KeyError, IndexError, TypeError, OSError, MemoryError, struct.error, OverflowError
)  # fmt: skip
_RECORD_BATCH, _DICTIONARY = 3, 2
"""Kinds of message in Arrow's Message.fbs."""
_COMPRESSION: Final = 3
"""Place of that field in its RecordBatch."""
_BUFFERS: Final = 2


def table_of(value: bytes) -> pa.Table:
    """The events of a message, not `is_sound` yet. Raises PoisonError if it is none, or has too many events."""
    check_sizes(value)
    table = opened(value)
    if table.num_rows >= MOST_ROWS:
        raise PoisonError(Reason.TOO_LARGE, f"the message has {table.num_rows} events of at most {MOST_ROWS - 1}")
    return table


def is_sound(table: pa.Table) -> bool:
    """Whether the columns hold what their types promise: until then nothing may be computed from them."""
    try:
        table.validate(full=True)
    except _BROKEN:
        return False
    return True


def opened(value: bytes) -> pa.Table:
    """What a message says, unchecked. Raises PoisonError."""
    try:
        with pa.ipc.open_stream(value) as reader:
            table: pa.Table = reader.read_all()
    except _BROKEN as error:
        raise _broken(error) from None
    return table


def _broken(error: BaseException) -> PoisonError:
    return PoisonError(Reason.BROKEN_MESSAGE, f"it is no Arrow stream: {str(error)[:200]}")


def one_row(table: pa.Table, row: int) -> bytes:
    """A stream of one event. Dictionaries are resolved: each letter would hold the whole of them."""
    one = table.slice(row, 1)
    kinds = [_resolved(kind) for kind in one.schema.types]
    columns = [
        column if column.type == kind else pa.array(column.to_pylist(), kind)
        for column, kind in zip(one.columns, kinds, strict=True)
    ]
    plain: pa.Table = pa.Table.from_arrays(columns, names=one.schema.names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue().to_pybytes())


def _resolved(kind: pa.DataType) -> pa.DataType:
    """The type with what its dictionaries stand for."""
    if isinstance(kind, pa.DictionaryType):
        return _resolved(kind.value_type)
    if isinstance(kind, pa.StructType):
        return pa.struct([one.with_type(_resolved(one.type)) for one in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(_resolved(kind.value_type))
    if isinstance(kind, pa.LargeListType):
        return pa.large_list(_resolved(kind.value_type))
    return kind


def check_sizes(value: bytes) -> None:
    """Raises PoisonError if the message's buffers would unpack to more than `MOST_BYTES`."""
    try:
        size = sum(map(_unpacked, pa.ipc.MessageReader.open_stream(value)))
    except _BROKEN as error:
        raise _broken(error) from None
    if size > MOST_BYTES:
        raise PoisonError(
            Reason.TOO_LARGE, f"its compressed buffers are {size} bytes, unpacked, of at most {MOST_BYTES}"
        )


def _unpacked(message: Any) -> int:  # noqa: ANN401  (a Message, which the stubs do not know)
    """Bytes of its compressed buffers when they are unpacked."""
    if message.body is None:
        return 0
    table = _Table.root(message.metadata.to_pybytes())
    kind = table.byte(1)
    batch = table.table(2)
    if kind == _DICTIONARY and batch is not None:
        batch = batch.table(1)
    elif kind != _RECORD_BATCH:
        return 0
    if batch is None or batch.table(_COMPRESSION) is None:
        return 0
    body, size = memoryview(message.body), 0
    for offset, length in batch.pairs(_BUFFERS):
        if length >= 8:
            # -1: this buffer did not get smaller, and lies there as it is.
            size += max(0, struct.unpack_from("<q", body, offset)[0])
    return size


class _Table:
    """A table of a flatbuffer: fields by their place in its schema."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._slots = at - struct.unpack_from("<i", data, at)[0]
        self._num_bytes = struct.unpack_from("<H", data, self._slots)[0]

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _where(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot >= self._num_bytes:
            return None
        offset = struct.unpack_from("<H", self._data, self._slots + slot)[0]
        return self._at + offset if offset else None

    def byte(self, field: int) -> int:
        at = self._where(field)
        return 0 if at is None else self._data[at]

    def table(self, field: int) -> _Table | None:
        at = self._where(field)
        return None if at is None else _Table(self._data, at + struct.unpack_from("<I", self._data, at)[0])

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A vector of structs of two int64."""
        at = self._where(field)
        if at is None:
            return []
        at += struct.unpack_from("<I", self._data, at)[0]
        (num,) = struct.unpack_from("<I", self._data, at)
        return list(struct.iter_unpack("<qq", self._data[at + 4 : at + 4 + 16 * num]))
