"""A topic routed on real Kafka: every record once, where its user belongs, as it was."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions, NewTopic

from infra.clock import Clock, Deadline
from infra.services.stack import Stack
from streams.errors import ConfigError, InvariantError
from streams.events.formats.config import FormatConfig
from streams.events.roles import Roles
from streams.kafka import client, route_sink, topics
from streams.kafka.client import KafkaConfig
from streams.kafka.route import Route, RouteReport
from streams.kafka.route_config import RouteConfig
from streams.kafka.route_sink import RouteSink
from streams.kafka.route_source import RouteSource
from streams.kafka.topics import TopicsConfig
from streams.routing.addresses import Piece
from streams.routing.murmur2 import partition_of
from tests.deleted_topics import delete_topics
from tests.streams.kafka.topic_reader import headers_of, read_topic

pytestmark = pytest.mark.integration

ROLES = Roles(event_id=("id",), user="user", item="item", time="at")
AT = 1_735_689_600_000
SOURCE_PARTITIONS, PARTITIONS = 5, 3


def made(kafka: str, name: str) -> RouteConfig:
    """The topic NAME to route, and the topics NAME-in … to route it to."""
    config = KafkaConfig(bootstrap=kafka)
    own = TopicsConfig(interactions=f"{name}-in", minibatches=f"{name}-out", partitions=PARTITIONS)
    admin = client.admin(config)
    topics.ensure(admin, own)
    settings = own.settings(own.interactions)
    admin.create_topics([NewTopic(name, SOURCE_PARTITIONS, 1, config=settings)])[name].result(30)
    return RouteConfig(
        kafka=config,
        topics=own,
        roles=ROLES,
        format=FormatConfig(),
        source=name,
        app="test",
        commit_every_ms=20,
        max_transaction_bytes=1 << 20,
        retry_ms=100,
        until_end=True,
    )


def event(number: int, user: object, at: int) -> bytes:
    return json.dumps({"id": number, "user": user, "item": number % 9, "at": at}).encode()


def write(config: RouteConfig, events: Sequence[tuple[bytes | None, bytes | None]], first: int = 0) -> None:
    """Key and value each, as a producer with a partitioner of its own places them."""
    producer = Producer({"bootstrap.servers": config.kafka.bootstrap, "enable.idempotence": True})
    for i, (key, value) in enumerate(events, first):
        partition = random.Random(i).randrange(SOURCE_PARTITIONS)
        producer.produce(config.source, value, key, partition, timestamp=AT + i, headers={"kept": str(i)})
        producer.poll(0)
    assert producer.flush(60) == 0


def routed(config: RouteConfig) -> RouteReport:
    run = Route(config, Clock(), lambda: False)
    assert run.run()
    return run.report


def origins(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Partition and offset in the source."""
    told = [headers_of(message) for message in messages]
    return [(int(one["recd-origin-partition"]), int(one["recd-origin-offset"])) for one in told]


def test_every_record_comes_as_it_was_to_the_partition_of_its_user(kafka: str) -> None:
    config = made(kafka, "route-all")
    draw = random.Random(3)
    good = [(None, event(i, draw.choice([f"u{i % 40}", i % 30]), AT + 1000 * i)) for i in range(2_000)]
    bad = [(b"k", b"{"), (None, event(1, None, AT)), (None, None)]
    write(config, [*good[:1000], *bad, *good[1000:], (b"erased", None)])
    report = routed(config)
    assert (report.read, report.written, report.dead_letter, report.left) == (2_004, 2_001, 3, 0)
    assert report.reasons == {"broken_json": 1, "missing_field": 2}

    source = read_topic(config.kafka, config.source, SOURCE_PARTITIONS)
    target = read_topic(config.kafka, config.target_topic, PARTITIONS)
    before = {(m.partition(), m.offset()): m for messages in source for m in messages}
    for partition, messages in enumerate(target):
        for message, place in zip(messages, origins(messages), strict=True):
            original = before[place]
            value = message.value()
            assert value == original.value()
            assert message.key() == (b"erased" if value is None else str(json.loads(value)["user"]).encode())
            assert partition == partition_of(message.key() or b"", PARTITIONS)
            assert message.timestamp() == original.timestamp()
            assert list(message.headers() or ())[:1] == list(original.headers() or ())
            assert headers_of(message)["recd-origin"] == config.source.encode()
    found = [place for messages in target for place in origins(messages)]
    letters = [m for messages in read_topic(config.kafka, config.topics.dead_letter, PARTITIONS) for m in messages]
    told = [headers_of(letter) for letter in letters]
    buried = [(int(one["recd-source-partition"]), int(one["recd-source-offset"])) for one in told]
    assert sorted([*found, *buried]) == sorted(before), "each record once, in one of the two topics"
    assert {one["recd-source"] for one in told} == {config.source.encode()}
    assert sorted(one["recd-reason"] for one in told) == [b"broken_json", b"missing_field", b"missing_field"]


def test_the_order_is_that_of_event_time_and_of_each_partition_of_the_source(kafka: str) -> None:
    config = made(kafka, "route-order")
    write(config, [(None, event(i, f"u{i % 20}", AT + 1000 * i)) for i in range(3_000)])
    routed(config)
    for messages in read_topic(config.kafka, config.target_topic, PARTITIONS):
        times = [json.loads(message.value() or b"")["at"] for message in messages]
        # The source's partitions are in order each: put together they still are.
        assert times == sorted(times)
        lanes = defaultdict(list)
        for partition, offset in origins(messages):
            lanes[partition].append(offset)
        assert all(offsets == sorted(offsets) for offsets in lanes.values())


def test_another_run_goes_on_where_the_last_one_ended(kafka: str) -> None:
    config = made(kafka, "route-again")
    write(config, [(None, event(i, i, AT + i)) for i in range(100)])
    assert routed(config).written == 100
    assert routed(config).read == 0
    write(config, [(None, event(i, i, AT + i)) for i in range(100, 150)], first=100)
    assert routed(config).written == 50
    assert routed(replace(config, from_start=True)).written == 150


def test_topics_that_were_made_again_are_refused_and_from_start_routes_all(kafka: str) -> None:
    config = made(kafka, "route-remade")
    write(config, [(None, event(i, i, AT + i)) for i in range(100)])
    routed(config)
    admin = client.admin(config.kafka)
    delete_topics(admin, config.target_topic)
    topics.ensure(admin, config.topics)
    with pytest.raises(ConfigError, match=r"route-remade-in was deleted and made again .* --from-start"):
        routed(config)
    assert routed(replace(config, from_start=True)).written == 100
    assert sum(map(len, read_topic(config.kafka, config.target_topic, PARTITIONS))) == 100
    assert routed(config).read == 0


def test_records_that_were_deleted_before_they_were_routed_are_told(kafka: str) -> None:
    config = made(kafka, "route-deleted")
    write(config, [(None, event(i, i, AT + i)) for i in range(100)])
    routed(config)
    write(config, [(None, event(i, i, AT + i)) for i in range(100, 200)], first=100)
    ends = [len(messages) for messages in read_topic(config.kafka, config.source, SOURCE_PARTITIONS)]
    place = TopicPartition(config.source, 2, ends[2])
    admin = client.admin(config.kafka)
    admin.delete_records([place])[place].result(30)
    with pytest.raises(ConfigError, match=r"route-deleted\[2\] begins at offset .* deleted before they were routed"):
        routed(config)


def test_what_is_too_large_for_the_target_is_a_dead_letter(kafka: str) -> None:
    config = made(kafka, "route-large")
    small = replace(config.topics, max_message_bytes=64 * 1024)
    large = json.dumps({"user": "u", "at": AT, "text": "x" * 70_000}).encode()
    write(config, [(None, large), (None, event(1, "u", AT))])
    report = routed(replace(config, topics=small))
    assert (report.read, report.written, report.reasons) == (2, 1, {"too_large": 1})


def test_of_two_that_route_the_same_the_older_one_leaves(kafka: str) -> None:
    config = made(kafka, "route-twins")
    older = RouteSink(config.kafka, config.topics, config.target_topic, config.name)
    assert older.write(Piece(0, b"u", b"{}"), AT, [])
    write(config, [(None, event(i, i, AT + i)) for i in range(50)])
    assert routed(config).written == 50
    with (
        closing(older),
        closing(RouteSource(config.kafka, config.source, config.name)) as source,
        pytest.raises(InvariantError, match="another `recd route` has taken over"),
    ):
        older.commit(config.source, {0: 1}, "", source.group_metadata)
    assert committed(config) == 50


class Hurrying(Clock):
    """A clock on which half a minute is soon over."""

    def monotonic_ms(self) -> int:
        return 100 * super().monotonic_ms()


def test_partitions_that_the_source_gets_are_routed_too(kafka: str) -> None:
    config = replace(made(kafka, "route-grows"), until_end=False)
    admin, clock = client.admin(config.kafka), Clock()
    deadline = Deadline.after(clock, 60_000)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(Route(config, Hurrying(), lambda: deadline.passed or committed(config) == 60).run)
        write(config, [(None, event(i, i, AT + i)) for i in range(50)])
        admin.create_partitions([NewPartitions(config.source, SOURCE_PARTITIONS + 1)])[config.source].result(30)
        producer = Producer({"bootstrap.servers": kafka, "topic.metadata.refresh.interval.ms": 500})
        for i in range(50, 60):
            producer.produce(config.source, event(i, i, AT + i), partition=SOURCE_PARTITIONS)
        assert producer.flush(60) == 0
        assert running.result() is False
    assert committed(config) == 60


@pytest.mark.fault
@pytest.mark.timeout(400)
def test_a_broker_that_dies_and_comes_back_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A step that is stuck is given up after twice as long.
    monkeypatch.setattr(route_sink, "_STEP_MS", 4_000)
    stack = Stack(tmp_path / "services", tied=True)
    try:
        bootstrap = stack.up(brokers=1, kind="kafka").kafka
        config = replace(made(bootstrap, "route-broker"), until_end=False)
        deadline, all_there = Deadline.after(Clock(), 200_000), Event()
        with ThreadPoolExecutor(1) as threads:
            run = Route(config, Clock(), lambda: deadline.passed or all_there.is_set())
            write(config, [(None, event(i, i, AT + i)) for i in range(2_000)])
            running = threads.submit(run.run)
            while not run.report.read:
                assert not deadline.passed
            assert stack.process("kafka-1").kill()
            assert stack.up().kafka == bootstrap
            write(config, [(None, event(i, i, AT + i)) for i in range(2_000, 4_000)], first=2_000)
            while committed(config) < 4_000:
                assert not deadline.passed
            all_there.set()
            running.result()
        target = read_topic(config.kafka, config.target_topic, PARTITIONS)
        numbers = [json.loads(message.value() or b"")["id"] for messages in target for message in messages]
        assert sorted(numbers) == list(range(4_000))
    finally:
        stack.down()


def test_what_could_not_work_is_refused_with_what_to_do(kafka: str) -> None:
    config = made(kafka, "route-refused")
    with pytest.raises(ConfigError, match="routed into itself"):
        replace(config, source=config.target_topic)
    with pytest.raises(ConfigError, match="is a topic of this configuration itself"):
        replace(config, source=config.topics.clock)
    with pytest.raises(ConfigError, match="there is no topic route-nowhere to route"):
        routed(replace(config, source="route-nowhere"))
    with pytest.raises(ConfigError, match="use a real Kafka"):
        replace(config, kafka=replace(config.kafka, plain=True))
    wrong = replace(config.topics, partitions=PARTITIONS + 1)
    with pytest.raises(ConfigError, match=r"has 3 partitions .*`recd route route-refused-in` then fills the new one"):
        topics.ensure(client.admin(config.kafka), wrong)


def test_transactions_that_the_broker_finds_too_long_are_refused_with_what_to_do(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route_sink, "_TIMEOUT_MS", 1_000_000)
    with pytest.raises(ConfigError, match=r"raise the broker's transaction\.max\.timeout\.ms"):
        routed(made(kafka, "route-long"))


CONFIG = """
[event]
event_id = ["id"]
user = "user"
item = "item"
time = "at"
[[labels]]
name = "like"
field = "stars"
[[features]]
name = "item"
field = "item"
table = "item"
[model.tables.item]
rows = 100
"""


def command(config: RouteConfig, folder: Path, *words: str) -> list[str]:
    file = folder / "recd.toml"
    own = config.topics
    named = f'interactions = "{own.interactions}"\nminibatches = "{own.minibatches}"\npartitions = {own.partitions}\n'
    address = f'[kafka]\nbootstrap = "{config.kafka.bootstrap}"\n'
    file.write_text(f"{CONFIG}[topics]\n{named}{address}[worker]\ncommit_every_ms = 10\n")
    return [sys.executable, "-m", "infra.cli", "route", config.source, "-c", str(file), "--json", *words]


def committed(config: RouteConfig) -> int:
    return sum(map(len, read_topic(config.kafka, config.target_topic, PARTITIONS)))


@pytest.mark.fault
@pytest.mark.timeout(400)
def test_a_route_that_is_killed_loses_nothing_and_repeats_nothing(kafka: str, tmp_path: Path) -> None:
    config, num = made(kafka, "route-killed"), 200_000
    write(config, [(None, event(i, f"u{i % 500}", AT + i)) for i in range(num)])
    clock, seen, cut_short = Clock(), 0, False
    for _ in range(3):
        with subprocess.Popen(command(config, tmp_path), stdout=subprocess.DEVNULL) as running:
            deadline = Deadline.after(clock, 60_000)
            while committed(config) <= seen:
                assert running.poll() is None
                assert not deadline.passed
            running.send_signal(signal.SIGKILL)
        seen = committed(config)
        cut_short |= seen < num
        if seen == num:
            break
    assert cut_short, "it must die with work in flight"
    ran = subprocess.run(command(config, tmp_path, "--until-end"), stdout=subprocess.PIPE, check=True)
    summary = json.loads(ran.stdout.splitlines()[-1])
    assert (summary["exit_reason"], summary["left"]) == ("end", 0)
    target = read_topic(config.kafka, config.target_topic, PARTITIONS)
    source = read_topic(config.kafka, config.source, SOURCE_PARTITIONS)
    found = [place for messages in target for place in origins(messages)]
    assert sorted(found) == [(p, offset) for p, messages in enumerate(source) for offset in range(len(messages))]


@pytest.mark.parametrize(("told", "code", "reason"), [("SIGTERM", 0, "terminated"), ("SIGINT", 130, "interrupted")])
def test_told_to_stop_it_commits_and_leaves_nothing_behind(
    kafka: str, tmp_path: Path, told: str, code: int, reason: str
) -> None:
    config = made(kafka, f"route-{told.lower()}")
    write(config, [(None, event(i, i, AT + i)) for i in range(500)])
    with subprocess.Popen(
        command(config, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        deadline = Deadline.after(Clock(), 60_000)
        while committed(config) < 500:
            assert running.poll() is None
            assert not deadline.passed
        # What comes while it runs is routed, too.
        write(config, [(None, event(i, i, AT + i)) for i in range(500, 600)], first=500)
        while committed(config) < 600:
            assert not deadline.passed
        running.send_signal(signal.Signals[told])
        summary = json.loads(running.stdout.read().splitlines()[-1])
        assert running.wait(30) == code
    assert (summary["ok"], summary["exit_reason"], summary["written"], summary["left"]) == (True, reason, 600, 0)
    assert routed(replace(config, app="recd-sessionizer")).read == 0
