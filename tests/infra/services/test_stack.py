"""A directory of real services through its life: down and up, crashes, taken ports, broken storage."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from confluent_kafka import KafkaError, Producer

from infra.services import ports, record
from infra.services.errors import StackMismatchError
from infra.services.stack import Addresses, Stack
from tests.infra.services.topic_io import OLD_MS, create_topic, produce, read_all

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("stack")
    # What a format leaves that was killed half way: it has no effect on anything below.
    left = directory / "data" / "kafka-1.formatting" / "__cluster_metadata-0"
    left.mkdir(parents=True)
    (left / "00000000000000000000-0000000000.checkpoint").write_bytes(b"half")
    stack = Stack(directory, tied=True)
    yield stack
    stack.down()


@pytest.fixture
def running(stack: Stack) -> Addresses:
    return stack.up(kind="kafka")


def states(stack: Stack) -> dict[str, str]:
    return {service.name: service.state for service in stack.status().services}


def store(addresses: Addresses, key: str, value: str) -> None:
    with redis.Redis.from_url(addresses.redis) as client:
        client.set(key, value)


def stored(addresses: Addresses, key: str) -> object:
    with redis.Redis.from_url(addresses.redis) as client:
        return client.get(key)


def test_a_directory_that_never_ran_has_no_services_and_nothing_to_stop(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "never")
    assert stack.status().services == ()
    assert not stack.status().up
    assert stack.down() == ()
    assert not (tmp_path / "never").exists()


def test_storage_whose_format_was_interrupted_is_formatted_again(stack: Stack, running: Addresses) -> None:
    assert running.kind == "kafka"
    assert [folder.name for folder in (stack.directory / "data").glob("kafka-*")] == ["kafka-1"]


def test_up_leaves_what_runs_alone(stack: Stack, running: Addresses) -> None:
    pids = [service.pid for service in stack.status().services]
    assert stack.status().up
    assert stack.up() == running
    assert [service.pid for service in stack.status().services] == pids


def test_records_and_keys_survive_down_and_up_at_the_same_addresses(stack: Stack, running: Addresses) -> None:
    create_topic(running.kafka, "kept")
    assert produce(running.kafka, "kept", range(1000)) == list(range(1000))
    store(running, "kept", "value")

    assert set(stack.down()) == {"kafka-1", "redis"}
    assert states(stack) == {"kafka-1": "stopped", "redis": "stopped"}

    assert stack.up() == running
    assert read_all(running.kafka, "kept") == [(number, OLD_MS + number) for number in range(1000)]
    assert stored(running, "kept") == b"value"


def test_topics_are_never_created_by_asking_for_them(running: Addresses) -> None:
    errors: list[KafkaError | None] = []
    settings = {"bootstrap.servers": running.kafka, "topic.metadata.propagation.max.ms": 100, "log_level": 0}
    producer = Producer(settings)
    producer.produce("nowhere", b"1", on_delivery=lambda error, _message: errors.append(error))
    producer.flush(20)
    assert [error.name() for error in errors if error] == ["UNKNOWN_TOPIC_OR_PART"]


@pytest.mark.fault
def test_after_kill_9_of_both_up_brings_back_everything_acknowledged(stack: Stack, running: Addresses) -> None:
    create_topic(running.kafka, "killed")
    acknowledged = produce(running.kafka, "killed", range(500))
    assert stack.process("kafka-1").kill()
    assert stack.process("redis").kill()
    assert states(stack) == {"kafka-1": "crashed", "redis": "crashed"}
    assert not stack.status().up

    assert stack.up() == running
    assert [number for number, _ in read_all(running.kafka, "killed")] == acknowledged == list(range(500))


@pytest.mark.fault
def test_only_what_died_is_started_again(stack: Stack, running: Addresses) -> None:
    kafka = stack.process("kafka-1").identity()
    assert stack.process("redis").kill()
    assert states(stack) == {"kafka-1": "running", "redis": "crashed"}

    assert stack.up() == running
    assert stack.status().up
    assert stack.process("kafka-1").identity() == kafka


@pytest.mark.fault
def test_services_move_from_ports_that_others_took_and_keep_their_data(stack: Stack, running: Addresses) -> None:
    create_topic(running.kafka, "moved")
    produce(running.kafka, "moved", range(10))
    stack.down()
    known = record.load(stack.directory / "stack.json")
    assert known is not None
    with listening(known.brokers[0].client_port), listening(known.redis_port):
        moved = stack.up()
    assert moved.kafka != running.kafka
    assert moved.redis != running.redis
    assert [number for number, _ in read_all(moved.kafka, "moved")] == list(range(10))
    assert stack.up() == moved


def test_asking_for_another_cluster_than_the_directory_holds_is_refused_in_words(
    stack: Stack, running: Addresses
) -> None:
    with pytest.raises(StackMismatchError, match=r"holds a Kafka cluster of 1 broker\(s\), and 3 broker\(s\)"):
        stack.up(brokers=3)
    with pytest.raises(StackMismatchError, match="in-memory stand-in was asked for"):
        stack.up(kind="memory")
    with pytest.raises(StackMismatchError, match="2 brokers is not one of"):
        stack.up(brokers=2)
    assert stack.up(brokers=1) == running


def listening(port: int) -> socket.socket:
    """Somebody else's server."""
    other = socket.create_server((ports.LOOPBACK, port))
    assert not ports.is_free(port)
    return other
