"""The stream as Arrow messages of many events, each of one partition.

Owns how events are gathered: in the order of the stream, as many as a bulk producer would send at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa

from benchmarks.sessionizer.stream import Message

_NUMBERS: Final = ("id", "user", "at", "item", "category", "shop", "city", "device", "page", "hour", "of")
_FIELDS: Final[list[pa.Field[Any]]] = [
    pa.field("type", pa.string()),
    pa.field("price", pa.float64()),
    *(pa.field(name, pa.int64()) for name in _NUMBERS),
]
_SCHEMA: Final = pa.schema(_FIELDS)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A message of many events."""

    partition: int
    time_ms: int
    """Of the last one."""
    key: bytes | None
    value: bytes
    num_events: int


def bundled(messages: Iterable[Message], partitions: int, size: int) -> Iterator[Bundle]:
    """Messages of `size` events, the last ones of fewer."""
    waiting: list[list[Message]] = [[] for _ in range(partitions)]
    for message in messages:
        partition = message.user % partitions
        waiting[partition].append(message)
        if len(waiting[partition]) == size:
            yield _bundle(partition, waiting[partition])
            waiting[partition] = []
    yield from (_bundle(partition, some) for partition, some in enumerate(waiting) if some)


def _bundle(partition: int, messages: list[Message]) -> Bundle:
    events: list[dict[str, Any]] = [msgspec.json.decode(message.value) for message in messages]
    table = pa.Table.from_pylist(events, schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as writer:
        writer.write_table(table)
    return Bundle(partition, messages[-1].time_ms, None, sink.getvalue().to_pybytes(), len(events))
