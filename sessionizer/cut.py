"""Cuts as bytes: named numpy arrays and a JSON header, compressed.

Owns the layout: zstd( npz with the member `header` (JSON as uint8) and one member an array ). No pickle: object
arrays are refused on reading. Never knows what the arrays mean.
"""

from __future__ import annotations

import io
import zipfile
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

_HEADER: Final = "header"
_LEVEL: Final = 1
"""Cuts are written every few seconds and read once in a crash."""
_MAX_BYTES: Final = 8 << 30


def encode(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Header and arrays to bytes."""
    buffer = io.BytesIO()
    members = {_HEADER: np.frombuffer(msgspec.json.encode(header), np.uint8)} | arrays
    np.savez(buffer, allow_pickle=False, **members)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(buffer.getbuffer())


def decode(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """Bytes to header and arrays. Raises InvariantError if they are damaged."""
    try:
        raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MAX_BYTES)
        with np.load(io.BytesIO(raw), allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        return msgspec.json.decode(arrays.pop(_HEADER).tobytes()), arrays
    except (zstandard.ZstdError, zipfile.BadZipFile, ValueError, KeyError, EOFError, msgspec.DecodeError) as error:
        raise InvariantError(
            f"a cut is damaged ({error}); recovery must use an older one, or read the topic from its start"
        ) from error


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """The same arrays under `prefix.name`."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays that `prefixed` put under this prefix."""
    start = prefix + "."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def list_arrays(column: ListColumn) -> Arrays:
    """A list column as arrays."""
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
