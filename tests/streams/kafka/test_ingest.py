"""Files into real Kafka, every row accounted for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewTopic

from infra.clock import Clock
from streams.clock_mark import ClockMark, MarkKind
from streams.events.roles import Roles
from streams.kafka import client, topics
from streams.kafka.client import KafkaConfig
from streams.kafka.ingest import Ingest, IngestReport, Progress
from streams.kafka.pace import at_rate
from streams.kafka.topics import TopicsConfig
from tests.streams.kafka.topic_reader import headers_of, read_topic

pytestmark = pytest.mark.integration

ROLES = Roles(event_id=("id",), user="user", item="item", time="t", time_unit="s")
T0 = 1_700_000_000


def prepared(kafka: str, name: str) -> tuple[KafkaConfig, TopicsConfig]:
    config, names = KafkaConfig(bootstrap=kafka), TopicsConfig(interactions=name, minibatches=f"{name}-out")
    topics.ensure(client.admin(config), names)
    return config, names


def ingest(config: KafkaConfig, names: TopicsConfig, files: Sequence[Path], *, end: bool = False) -> IngestReport:
    return Ingest(config, names, ROLES, Clock()).run(files, end=end)


def jsonl(path: Path, rows: Sequence[Mapping[str, object] | str]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_rows_of_several_files_arrive_once_each_in_the_order_of_their_times(kafka: str, tmp_path: Path) -> None:
    config, names = prepared(kafka, "ingest-order")
    rows = [{"id": i, "user": i % 7, "item": 1, "t": T0 + (i * 37) % 100} for i in range(300)]
    files = [jsonl(tmp_path / "a.jsonl", rows[:150]), jsonl(tmp_path / "b.jsonl", rows[150:])]
    report = ingest(config, names, files)
    assert (report.read, report.produced, report.dead_letter) == (300, 300, 0)

    partitions = read_topic(config, names.interactions, names.partitions)
    values = [[json.loads(message.value() or b"") for message in each] for each in partitions]
    assert sorted(row["id"] for each in values for row in each) == list(range(300))
    for each, messages in zip(values, partitions, strict=True):
        keys = [(row["t"], row["id"]) for row in each]
        assert keys == sorted(keys)
        assert [message.timestamp()[1] for message in messages] == [row["t"] * 1000 for row in each]
        assert [message.key() for message in messages] == [str(row["user"]).encode() for row in each]
        assert all(int(headers_of(message)["recd-appended-ms"]) > T0 * 1000 for message in messages)


def test_what_cannot_be_an_event_is_a_dead_letter_with_file_line_and_reason(kafka: str, tmp_path: Path) -> None:
    config, names = prepared(kafka, "ingest-bad")
    good: dict[str, object] = {"id": 1, "user": 1, "item": 1, "t": T0}
    rows: list[Mapping[str, object] | str] = [
        good,
        '{"id": 2',
        {**good, "user": None},
        {**good, "t": T0 * 1000},
        {**good, "t": 7_000_000_000},
        {**good, "item": "x" * 2_000_000},
        {"id": 3, "user": 1, "t": T0, "kind": "anything else is the decoder's to judge"},
    ]
    file = jsonl(tmp_path / "bad.jsonl", rows)
    report = ingest(config, names, [file])
    assert (report.read, report.produced, report.dead_letter) == (7, 2, 5)
    letters = [message for each in read_topic(config, names.dead_letter, names.partitions) for message in each]
    told = {}
    for letter in letters:
        headers = headers_of(letter)
        assert headers["recd-source"] == str(file).encode()
        told[int(headers["recd-source-line"])] = headers["recd-reason"].decode()
    assert told == {2: "broken_json", 3: "missing_field", 4: "time_out_of_range", 5: "future_time", 6: "too_large"}
    assert sum(report.reasons.values()) == 5


def test_end_marks_stand_after_the_last_event_of_every_partition(kafka: str, tmp_path: Path) -> None:
    config, names = prepared(kafka, "ingest-end")
    file = jsonl(tmp_path / "a.jsonl", [{"id": i, "user": 1, "item": 1, "t": T0 + i} for i in range(5)])
    ingest(config, names, [file], end=True)
    events = read_topic(config, names.interactions, names.partitions)
    marks = read_topic(config, names.clock, names.partitions)
    for partition, (mark,) in enumerate(marks):
        found = ClockMark.decode(mark.value() or b"")
        assert found == ClockMark(partition=partition, after_offset=len(events[partition]), kind=MarkKind.END)


def test_what_the_broker_refuses_is_a_dead_letter_and_its_neighbours_are_not(kafka: str, tmp_path: Path) -> None:
    config = KafkaConfig(bootstrap=kafka)
    names = TopicsConfig(interactions="ingest-refused", minibatches="ingest-refused-out", partitions=1)
    strict = {"message.timestamp.before.max.ms": "1000", "max.message.bytes": "100000"}
    made = [NewTopic(names.interactions, num_partitions=1, config=strict)]
    made += [NewTopic(name, num_partitions=1) for name in (names.dead_letter, names.clock)]
    admin = client.admin(config)
    for future in admin.create_topics(made).values():
        future.result(10)
    # The broker counts compressed bytes: this does not compress to half.
    large = "".join(hashlib.sha256(bytes([n % 256, n // 256])).hexdigest() for n in range(4000))
    now_s = Clock().now_ms() // 1000
    rows: list[Mapping[str, object] | str] = [
        {"id": i, "user": 1, "item": large if i == 8 else 1, "t": T0 if i == 3 else now_s + 60 + i} for i in range(20)
    ]
    report = ingest(config, names, [jsonl(tmp_path / "a.jsonl", rows)])
    assert (report.read, report.produced, report.dead_letter) == (20, 18, 2)
    assert report.reasons == {"refused_by_broker": 2}
    (events,) = read_topic(config, names.interactions, 1)
    assert sorted(json.loads(each.value() or b"")["id"] for each in events) == [i for i in range(20) if i not in {3, 8}]


def test_a_rate_is_kept_and_progress_is_told(kafka: str, tmp_path: Path) -> None:
    config, names = prepared(kafka, "ingest-rate")
    file = jsonl(tmp_path / "a.jsonl", [{"id": i, "user": i, "item": 1, "t": T0} for i in range(100)])
    told: list[Progress] = []
    clock = Clock()
    begun_ms = clock.monotonic_ms()
    Ingest(config, names, ROLES, clock, pace=at_rate(200), listener=told.append).run([file])
    assert clock.monotonic_ms() - begun_ms >= 490
    assert told[-1] == Progress(rows_read=100, sent=100, to_send=100, dead_letter=0)
