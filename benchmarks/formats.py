"""What a format costs: the same events of 150 bytes of JSON, as JSON, Avro, Protobuf, and Arrow of 512 a message.

    python -m benchmarks.formats [--events 8192] [--rounds 40]

Decoding alone, and decoding followed by the sessionizer's core; each round takes all formats in turns, and the
compared figure is the median of the paired ratios of CPU time, JSON over the other. What fetching a message costs is
left out: there Arrow has 512 times fewer of them.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from infra.clock import Clock
from sessionizer.config import BatchConfig, SessionConfig
from sessionizer.core import PartitionCore
from streams.events.decode import EventDecoder
from streams.events.formats.arrow import ArrowTables
from streams.events.formats.avro import AvroPlan
from streams.events.formats.framed import Framed
from streams.events.formats.protobuf import ProtobufPlan
from streams.events.formats.schemas import Registered
from streams.events.record import Record
from streams.events.roles import Roles
from streams.events.schema import DenseFeature, EventSchema, Label, SparseFeature

START_MS: Final = 1_700_000_000_000
A_MESSAGE: Final = 512
SCHEMA: Final = EventSchema(
    roles=Roles(event_id=("id",), user="user", item="item", time="ts"),
    labels=(Label(name="liked", field="rating", rule="ge", threshold=4.0),),
    sparse=(
        SparseFeature(name="user", field="user", table="user"),
        SparseFeature(name="item", field="item", table="item"),
        SparseFeature(name="surface", field="surface", table="surface"),
        SparseFeature(name="device", field="device", table="device"),
    ),
    dense=(DenseFeature(name="price", field="price"), DenseFeature(name="dwell", field="dwell", default=0.0)),
)
_FIELD: Final = descriptor_pb2.FieldDescriptorProto
TYPES: Final[dict[str, tuple[str, Any, pa.DataType]]] = {
    "id": ("long", _FIELD.TYPE_INT64, pa.int64()),
    "user": ("long", _FIELD.TYPE_INT64, pa.int64()),
    "item": ("long", _FIELD.TYPE_INT64, pa.int64()),
    "ts": ("long", _FIELD.TYPE_INT64, pa.int64()),
    "rating": ("int", _FIELD.TYPE_INT32, pa.int8()),
    "surface": ("string", _FIELD.TYPE_STRING, pa.string()),
    "device": ("string", _FIELD.TYPE_STRING, pa.string()),
    "price": ("double", _FIELD.TYPE_DOUBLE, pa.float64()),
    "dwell": ("double", _FIELD.TYPE_DOUBLE, pa.float64()),
}
"""As Avro, Protobuf and Arrow have them."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A record as the decoder wants it."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    topic: str = "interactions"
    partition: int = 0
    timestamp: int = START_MS


@dataclass(frozen=True, slots=True)
class OneSchema:
    """A registry of one schema."""

    registered: Registered

    def get(self, schema_id: int) -> Registered | None:
        """It."""
        return self.registered if schema_id == 1 else None


def log(num: int) -> list[dict[str, Any]]:
    """Events of 2,000 users, some of whom come often."""
    rng = np.random.default_rng(0)
    users, items = rng.zipf(1.3, num) % 2_000, rng.integers(1, 50_000, num)
    return [
        {
            "id": 90_000_000 + i, "user": 4_000_000 + int(users[i]), "item": int(items[i]), "ts": START_MS + 40 * i,
            "rating": int(items[i]) % 5 + 1, "surface": ("home", "search", "cart")[i % 3],
            "device": ("ios", "android")[i % 2], "price": round(float(items[i]) / 997, 2), "dwell": i % 90 / 8,
        }
        for i in range(num)
    ]  # fmt: skip


def json_records(events: Sequence[dict[str, Any]]) -> list[Record]:
    """One JSON object a message."""
    return [Fetched(i, json.dumps(event).encode()) for i, event in enumerate(events)]


def avro(events: Sequence[dict[str, Any]]) -> tuple[EventDecoder, list[Record]]:
    """In the Confluent wire format, and a decoder for it."""
    schema = {"type": "record", "name": "Event", "fields": [{"name": n, "type": t[0]} for n, t in TYPES.items()]}
    parsed = fastavro.parse_schema(schema)
    records: list[Record] = []
    for i, event in enumerate(events):
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, event)
        records.append(Fetched(i, b"\0\0\0\0\1" + sink.getvalue()))
    registry = OneSchema(Registered(kind="AVRO", text=json.dumps(schema)))
    return EventDecoder(SCHEMA, Framed(SCHEMA, registry, AvroPlan)), records


def protobuf(events: Sequence[dict[str, Any]]) -> tuple[EventDecoder, list[Record]]:
    """The same in Protobuf; no field tracks presence."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", syntax="proto3")
    message = file.message_type.add(name="Event")
    for number, (name, kinds) in enumerate(TYPES.items(), 1):
        message.field.add(name=name, number=number, type=kinds[1], label=_FIELD.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))
    records: list[Record] = [
        Fetched(i, b"\0\0\0\0\1\0" + kind(**event).SerializeToString()) for i, event in enumerate(events)
    ]
    text = base64.b64encode(file.SerializeToString()).decode()
    registry = OneSchema(Registered(kind="PROTOBUF", text=text))
    return EventDecoder(SCHEMA, Framed(SCHEMA, registry, ProtobufPlan)), records


def arrow(events: Sequence[dict[str, Any]]) -> tuple[EventDecoder, list[Record]]:
    """Streams of `A_MESSAGE` events."""
    columns = {name: kinds[2] for name, kinds in TYPES.items()}
    records: list[Record] = []
    for i, at in enumerate(range(0, len(events), A_MESSAGE)):
        table = pa.Table.from_pylist(list(events[at : at + A_MESSAGE]), schema=pa.schema(columns))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        records.append(Fetched(i, bytes(sink.getvalue().to_pybytes())))
    return EventDecoder(SCHEMA, ArrowTables(SCHEMA)), records


def results(num: int, rounds: int) -> list[dict[str, Any]]:
    """One result a format and stage."""
    events, clock = log(num), Clock()
    ways = {"json150": (EventDecoder(SCHEMA), json_records(events))}
    ways |= {"avro": avro(events), "protobuf": protobuf(events), "arrow512": arrow(events)}
    ids = [decoder.decode(records).events.event_id.tolist() for decoder, records in ways.values()]
    assert all(each == ids[0] for each in ids), "all formats hold the same events"
    assert len(ids[0]) == num, "none of them is a dead letter"

    def decode(name: str) -> None:
        decoder, records = ways[name]
        decoder.decode(records)

    def sessionize(name: str) -> None:
        decoder, records = ways[name]
        decoded = decoder.decode(records)
        core = PartitionCore(SCHEMA, SessionConfig(gap_ms=60_000, lateness_ms=1_000), BatchConfig(samples=1_024), 0)
        core.feed(decoded.events, rejected=0, next_offset=decoded.next_offset)

    sizes = {name: sum(len(r.value or b"") for r in records) / num for name, (_, records) in ways.items()}
    found = []
    for stage, call in (("events.decode", decode), ("events.decode_and_core", sessionize)):
        took = in_turns(call, list(ways), rounds, clock)
        for name in list(ways)[1:]:
            ratios = sorted(ours / theirs for ours, theirs in zip(took["json150"], took[name], strict=True))
            spread = [round(ratios[len(ratios) // 10], 3), round(ratios[-len(ratios) // 10], 3)]
            found.append(
                {
                    "id": f"{stage}.{name}.over_json150", "value": round(median(took[name]) / num, 3),
                    "unit": "µs CPU an event", "baseline": "json150",
                    "baseline_value": round(median(took["json150"]) / num, 3), "ratio": round(median(ratios), 3),
                    "median_of": rounds, "spread": spread,
                    "context": {"events": num, "bytes": round(sizes[name], 1), "json_bytes": round(sizes["json150"])},
                }
            )  # fmt: skip
    return found


def in_turns(call: Callable[[str], None], names: Sequence[str], rounds: int, clock: Clock) -> dict[str, list[float]]:
    """Microseconds of CPU time of each call."""
    took: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds + 2):
        for name in names:
            begun = clock.process_ns()
            call(name)
            if round_number >= 2:
                took[name].append((clock.process_ns() - begun) / 1e3)
    return took


def main() -> None:
    """Print one JSON line a result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=8_192)
    parser.add_argument("--rounds", type=int, default=40)
    chosen = parser.parse_args()
    for result in results(chosen.events, chosen.rounds):
        sys.stdout.write(f"{json.dumps(result)}\n")


if __name__ == "__main__":
    main()
