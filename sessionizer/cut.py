"""Cuts as bytes: named numpy arrays and a JSON header, compressed.

Owns the layout: zstd( length of the index as 8 bytes, little-endian · index as JSON · the arrays' bytes, one after the
other ). The index holds the header and the name, type and shape of each array. No pickle: arrays of objects are refused
in both directions. Never knows what the arrays mean.

(numpy's own files are not used: reading their headers goes through Python's parser, and in CPython 3.11 two threads in
it at once can fail each other. Partitions recover in threads.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

from streams.errors import InvariantError
from streams.events.event import EventBatch, ListColumn
from streams.ikjt.jagged import Jagged

Arrays = dict[str, npt.NDArray[Any]]

_LEVEL: Final = 1
"""Cuts are written every few seconds and read once in a crash."""
_MAX_BYTES: Final = 8 << 30
_LENGTH_BYTES: Final = 8


class _Member(msgspec.Struct, frozen=True):
    """One array."""

    name: str
    dtype: str | list[tuple[str, str]]
    """As numpy spells it; for records the name and type of each field."""
    shape: tuple[int, ...]


class _Index(msgspec.Struct, frozen=True):
    """What comes before the arrays."""

    header: dict[str, Any]
    members: list[_Member]


def encode(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Header and arrays to bytes."""
    members = [_Member(name, _spelled(array.dtype), array.shape) for name, array in arrays.items()]
    index = msgspec.json.encode(_Index(dict(header), members))
    size = _LENGTH_BYTES + len(index) + sum(array.nbytes for array in arrays.values())
    # Array by array: a copy of all of them would be as large as what is held.
    compressor = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=size)
    parts = [compressor.compress(len(index).to_bytes(_LENGTH_BYTES, "little") + index)]
    parts += [
        compressor.compress(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) for array in arrays.values()
    ]
    return b"".join([*parts, compressor.flush()])


def decode(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """Bytes to header and arrays of their own memory. Raises InvariantError if they are damaged."""
    try:
        return _read(zstandard.ZstdDecompressor().decompress(data, max_output_size=_MAX_BYTES))
    except (zstandard.ZstdError, ValueError, TypeError, msgspec.MsgspecError) as error:
        raise InvariantError(
            f"a cut is damaged ({error}); recovery must use an older one, or read the topic from its start"
        ) from error


def _read(body: bytes) -> tuple[dict[str, Any], Arrays]:
    end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "little")
    index = msgspec.json.decode(body[_LENGTH_BYTES:end], type=_Index)
    arrays: Arrays = {}
    for member in index.members:
        dtype = np.dtype(member.dtype)
        if dtype.hasobject or min(member.shape, default=0) < 0:
            raise ValueError(f"{member.name} cannot be of type {dtype} and shape {member.shape}")
        count = math.prod(member.shape)
        array = np.frombuffer(body, dtype, count, end) if count else np.zeros(0, dtype)
        arrays[member.name] = array.reshape(member.shape).copy()
        end += array.nbytes
    if end != len(body):
        raise ValueError(f"it has {len(body)} bytes, its arrays end at {end}")
    return index.header, arrays


def _spelled(dtype: np.dtype[Any]) -> str | list[tuple[str, str]]:
    if dtype.hasobject:
        raise ValueError("arrays of objects cannot be in a cut")
    if dtype.fields is None:
        return dtype.str
    return [(name, field.str) for name, (field, *_) in dtype.fields.items()]


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """The same arrays under `prefix.name`."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays that `prefixed` put under this prefix."""
    start = prefix + "."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def list_arrays(column: ListColumn) -> Arrays:
    """A list column as arrays."""
    column = column if column.source is None else column.own()
    weights = {} if column.rows.weights is None else {"weights": column.rows.weights}
    return {"values": column.rows.values, "offsets": column.rows.offsets, "index": column.index} | weights


def list_column(arrays: Arrays) -> ListColumn:
    """The list column of `list_arrays`."""
    rows = Jagged(arrays["values"], arrays["offsets"], arrays.get("weights"))
    return ListColumn(rows=rows, index=arrays["index"])


def event_arrays(events: EventBatch) -> Arrays:
    """Columns of events as arrays."""
    arrays: Arrays = {name: getattr(events, name) for name in EventBatch.__dataclass_fields__ if name != "lists"}
    for i, column in enumerate(events.lists):
        arrays |= prefixed(f"lists.{i}", list_arrays(column))
    return arrays


def event_batch(arrays: Arrays) -> EventBatch:
    """The events of `event_arrays`."""
    flat = {name: array for name, array in arrays.items() if not name.startswith("lists.")}
    count = len({name.split(".")[1] for name in arrays if name.startswith("lists.")})
    lists = tuple(list_column(under(f"lists.{i}", arrays)) for i in range(count))
    return EventBatch(**flat, lists=lists)
