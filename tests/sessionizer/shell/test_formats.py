"""A partition over Avro and Arrow: the batches of JSON, whatever dies, and whatever the registry does meanwhile."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.events.decode import EventDecoder
from streams.events.formats.arrow import ArrowTables
from streams.events.formats.config import FormatConfig
from streams.minibatch import MiniBatch
from tests.sessionizer.shell.memory import Fuse, Log
from tests.sessionizer.shell.test_partition import Life
from tests.sessionizer.shell.town import town
from tests.sessionizer.shell.world import SCHEMA, START_MS, events, identities, records, reference
from tests.streams.events.formats.encode import as_stream, framed
from tests.streams.kafka.registry_server import registry_server

PAIRS = events(400, seed=21, broken=10**9)
AVRO: dict[str, Any] = {
    "type": "record", "name": "Rating", "fields": [
        {"name": "id", "type": "string"}, {"name": "user", "type": "long"}, {"name": "item", "type": "long"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "rating", "type": ["null", "int"]},
    ],
}  # fmt: skip
AVRO_NEXT = AVRO | {"fields": [*AVRO["fields"], {"name": "page", "type": "string", "default": ""}]}
ARROW_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(), "user": pa.int64(), "item": pa.int64(), "ts": pa.timestamp("ms"), "rating": pa.int8(),
}  # fmt: skip
ARROW = pa.schema(ARROW_TYPES)


def in_avro(pairs: Sequence[tuple[bytes, bytes]], schema: dict[str, Any], schema_id: int) -> list[tuple[bytes, bytes]]:
    parsed = fastavro.parse_schema(schema)
    found = []
    for key, value in pairs:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, json.loads(value))
        found.append((key, framed(schema_id, sink.getvalue())))
    return found


def in_arrow(pairs: Sequence[tuple[bytes, bytes]], size: int) -> list[tuple[bytes, bytes]]:
    """Messages of `size` events; a bulk producer has no key."""
    found = [json.loads(value) for _, value in pairs]
    return [
        (b"", as_stream(pa.Table.from_pylist(found[at : at + size], schema=ARROW))) for at in range(0, len(found), size)
    ]


def arrow_decoder() -> EventDecoder:
    return EventDecoder(SCHEMA, ArrowTables(SCHEMA))


def contents(batches: Sequence[MiniBatch]) -> list[tuple[int, int]]:
    return [(batch.sequence, batch.content_hash) for batch in batches]


@settings(max_examples=20, deadline=None)
@given(size=st.integers(1, 40), poll=st.integers(1, 12), fuses=st.lists(st.integers(0, 20), max_size=4))
def test_a_dying_partition_over_arrow_commits_what_one_over_json_does(size: int, poll: int, fuses: list[int]) -> None:
    messages = records(in_arrow(PAIRS, size))
    life = Life(log=Log(), decoder=arrow_decoder())
    for at, message in enumerate(messages):
        life.log.records.append(message)
        if at % 7 == 3 and fuses:
            life.fuse = Fuse(fuses.pop())
            life.work(poll)
    life.fuse = Fuse()
    life.work(poll, finish=True)
    undisturbed = Life(log=Log(records=records(PAIRS)), decoder=EventDecoder(SCHEMA))
    undisturbed.work(1_000, finish=True)
    assert contents(life.log.read_batches()) == contents(undisturbed.log.read_batches())


def test_a_sample_of_an_arrow_message_is_told_apart_by_its_offset_and_event_id() -> None:
    life = Life(log=Log(records=records(in_arrow(PAIRS, 30))), decoder=arrow_decoder())
    life.work(5, finish=True)
    batches = life.log.read_batches()
    lineage = [
        pair
        for batch in batches
        for pair in zip(batch.lineage.offset.tolist(), batch.lineage.event_id.tolist(), strict=True)
    ]
    assert len(lineage) > 300
    assert len(set(lineage)) == len(lineage)
    assert {offset for offset, _ in lineage} <= set(range(len(PAIRS) // 30 + 1))


def test_only_those_events_of_a_message_that_lie_in_the_future_are_rejected() -> None:
    rows = [json.loads(value) for _, value in PAIRS[:9]]
    for at, ahead_ms in ((2, 3_000), (5, 1_000), (7, 9_000)):
        rows[at]["ts"] = START_MS + 86_400_000 + ahead_ms
    value = as_stream(pa.Table.from_pylist(rows, schema=ARROW))
    good = records([(b"", value)])
    life = Life(log=Log(records=good), decoder=arrow_decoder())
    life.work(1, finish=True)
    assert [offset for _, offset in life.log.letters] == [0, 0, 0]
    assert [(mark.after_offset, mark.value_ms) for mark in life.log.clock] == [(0, START_MS + 86_401_000)]
    assert life.partition is not None
    assert life.partition.core.account.labelled == 6
    assert life.partition.core.account.dead_lettered == 3
    again = Life(log=Log(records=list(good), clock=list(life.log.clock)), decoder=arrow_decoder())
    again.work(1, finish=True)
    assert again.log.clock == life.log.clock, "a replay decides nothing anew"
    assert again.log.letters == life.log.letters


def test_a_worker_waits_for_a_registry_that_is_away_and_rejects_no_good_record(kafka: str, tmp_path: Path) -> None:
    some = events(600, seed=22, broken=10**9)
    with registry_server() as registry, town(kafka, "worker-avro", tmp_path) as place:
        first = registry.register("ratings-value", {"schema": json.dumps(AVRO)})
        second = registry.register("ratings-value", {"schema": json.dumps(AVRO_NEXT)})
        later = [(key, json.dumps(json.loads(value) | {"page": "x"}).encode()) for key, value in some[300:]]
        place.format = FormatConfig(name="avro", registry=registry.url, registry_timeout_ms=500)
        registry.off()
        place.produce(0, in_avro(some[:300], AVRO, first))
        worker = place.start(retry_ms=200)
        place.wait_for_log(0, "partition will be recovered")
        assert place.batches(0) == []
        registry.on()
        place.wait_for_output(2)
        registry.off()
        seen = place.logs().count("partition will be recovered")
        place.produce(0, in_avro(later, AVRO_NEXT, second))
        place.end(0, len(some))
        waiting = place.clock.monotonic_ms() + 60_000
        while place.logs().count("partition will be recovered") < seen + 2:
            assert place.clock.monotonic_ms() < waiting, place.logs()
            place.clock.sleep(20)
        registry.on()
        summary = place.summary(worker)
        expected, _ = reference(records(some))
        assert summary["ended"]
        assert identities(place.batches(0)) == identities(expected)
        assert place.read(place.topics.dead_letter, 0) == []


def test_a_worker_over_arrow_gives_the_batches_of_json_and_a_letter_an_event(kafka: str, tmp_path: Path) -> None:
    some = events(600, seed=23, broken=10**9)
    messages = in_arrow(some, 50)
    bad = pa.Table.from_pylist([{"id": "x", "user": 1, "item": 1, "ts": 5}] * 3, schema=ARROW)
    with town(kafka, "worker-arrow", tmp_path) as place:
        place.format = FormatConfig(name="arrow")
        place.produce(0, [*messages, (b"", as_stream(bad))])
        place.end(0, len(messages) + 1)
        summary = place.summary(place.start())
        expected, _ = reference(records(some))
        assert contents(place.batches(0)) == contents(expected)
        account = summary["account"]
        assert isinstance(account, dict)
        assert (account["events"], account["dead_lettered"]) == (603, 3)
        letters = place.read(place.topics.dead_letter, 0)
        assert [pa.ipc.open_stream(letter.value() or b"").read_all().num_rows for letter in letters] == [1, 1, 1]
        offsets = np.concatenate([batch.lineage.offset for batch in place.batches(0)])
        assert set(offsets.tolist()) == set(range(len(messages)))
