"""Without a JDK: the stand-in takes over where nothing is lost by it, and nowhere else."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from infra.services import record
from infra.services.errors import MissingProgramError, StackMismatchError
from infra.services.memory_broker import CANNOT_SHOW
from infra.services.stack import Stack
from infra.services.toolchain import Toolchain
from tests.infra.services.topic_io import create_topic, produce, read_all

NO_JDK = Toolchain(path="", java_home="", jars=Path("/nowhere"))


@pytest.mark.integration
def test_without_a_jdk_the_stand_in_runs_and_says_what_it_cannot_show(tmp_path: Path) -> None:
    heard: list[str] = []
    stack = Stack(tmp_path, toolchain=NO_JDK, report=heard.append, tied=True)
    try:
        addresses = stack.up()
        assert addresses.kind == "memory"
        assert CANNOT_SHOW in heard
        assert any("apt-get install openjdk-17-jdk-headless" in line for line in heard)
        create_topic(addresses.kafka, "flow")
        assert sorted(produce(addresses.kafka, "flow", range(100))) == list(range(100))
        assert [number for number, _ in read_all(addresses.kafka, "flow", count=100)] == list(range(100))
        assert stack.status().up
        assert stack.up() == addresses
        with pytest.raises(StackMismatchError, match="stand-in runs"):
            Stack(tmp_path, tied=True).up(kind="kafka")
    finally:
        assert set(stack.down()) == {"memory-broker", "redis"}


def test_a_directory_with_kafkas_data_never_falls_back(tmp_path: Path) -> None:
    brokers = (record.BrokerRecord(1, 21_000, 21_001),)
    kept = record.StackRecord(kind="kafka", cluster_id="x" * 22, brokers=brokers, redis_port=21_002, redis_program="")
    record.save(tmp_path / "stack.json", kept)
    with pytest.raises(MissingProgramError, match="no `java` on the PATH"):
        Stack(tmp_path, toolchain=NO_JDK).up()


def test_asking_for_kafka_without_a_jdk_names_the_remedy(tmp_path: Path) -> None:
    stack = Stack(tmp_path, toolchain=NO_JDK)
    for ask in (partial(stack.up, kind="kafka"), partial(stack.up, 1, "kafka"), partial(stack.up, brokers=3)):
        with pytest.raises(MissingProgramError, match="what to do: `apt-get install openjdk-17-jdk-headless`"):
            ask()


def test_a_stand_in_of_three_brokers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StackMismatchError, match="stand-in is one broker"):
        Stack(tmp_path, toolchain=NO_JDK).up(3, "memory")
