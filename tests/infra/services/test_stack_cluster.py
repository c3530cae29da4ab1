"""Three brokers: replicated, alive with one of them gone, whole again after `up`, gone soon after `down`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.clock import Clock
from infra.services.kafka import STOP_MS
from infra.services.stack import Stack
from tests.infra.services.topic_io import create_topic, produce, read_all

pytestmark = [pytest.mark.integration, pytest.mark.fault]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("cluster"), tied=True)
    yield stack
    stack.down()


def test_a_cluster_of_three_goes_on_without_one_and_takes_it_back(stack: Stack) -> None:
    addresses = stack.up(brokers=3, kind="kafka")
    assert len(addresses.kafka.split(",")) == 3
    create_topic(addresses.kafka, "replicated", copies=3)
    first = produce(addresses.kafka, "replicated", range(100))

    assert stack.process("kafka-2").kill()
    second = produce(addresses.kafka, "replicated", range(100, 200))
    assert first + second == list(range(200))

    assert stack.up() == addresses
    assert stack.status().up
    assert [number for number, _ in read_all(addresses.kafka, "replicated")] == list(range(200))

    clock = Clock()
    begun_ms = clock.monotonic_ms()
    assert set(stack.down()) == {"kafka-1", "kafka-2", "kafka-3", "redis"}
    assert clock.monotonic_ms() - begun_ms < STOP_MS, "the last broker got all the time to wait for a vote"
    assert not list((stack.directory / "run").glob("*.pid"))
