"""On a broker that makes every topic it is asked for, nobody makes one by asking: it would have the wrong settings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from infra.services.kafka import FIXED_SETTINGS
from infra.services.stack import Stack
from streams.errors import RetryableError
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.kafka.lag import read_lag
from streams.kafka.offsets import bounds

READS_MS = 2_000


def read(kafka: str, topic: str, directory: Path) -> None:
    """A sessionizer's consumer looks for its topic for some time, which takes it several requests."""
    settings = {
        "bootstrap": kafka,
        "topic": topic,
        "total": 1,
        "moves": False,
        "breaks": "",
        "web_port": 0,
        "timeout_ms": READS_MS,
        "directory": str(directory),
    }
    command = [sys.executable, "-m", "tests.sessionizer.shell.seam_main", json.dumps(settings)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr


def arrives(producer: Producer, topic: str) -> bool:
    """Whether a record does, in a topic that is not there."""
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    (error,) = errors
    return error is None


def test_a_topic_that_is_not_there_is_made_by_nobody_who_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIXED_SETTINGS, "auto.create.topics.enable", "true")
    stack = Stack(tmp_path / "services", tied=True)
    try:
        config = KafkaConfig(bootstrap=stack.up(brokers=1, kind="kafka").kafka)
        read(config.bootstrap, "not-read", tmp_path)
        assert read_lag(config, "not-lagging", "nobody") == []
        asking = client.consumer(config, group="nobody")
        with pytest.raises(RetryableError):
            bounds(asking, "not-bounded", [0])
        asking.close()
        soon = {"topic.metadata.propagation.max.ms": 500}
        ours = client.producer(config, client_id="ours", extra=soon)
        assert not arrives(ours, "not-written")
        careless = client.producer(config, client_id="careless", extra={"allow.auto.create.topics": True})
        assert arrives(careless, "made"), "the broker would make them all"
        found = client.admin(config).list_topics(timeout=10).topics
        assert "made" in found
        assert not found.keys() & {"not-read", "not-lagging", "not-bounded", "not-written"}
    finally:
        stack.down()
