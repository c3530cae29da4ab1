"""Many kill -9 of a broker in the middle of writes: what it acknowledged is in the log, once and in order."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Message, Producer

from infra.clock import Clock, Deadline
from infra.services.stack import Stack
from tests.infra.services.topic_io import create_topic, read_all

pytestmark = [pytest.mark.audit, pytest.mark.fault, pytest.mark.integration]

ROUNDS = 50
WRITES_A_ROUND = 500
IN_FLIGHT = 100


class Writer(Thread):
    """Writes 0, 1, 2, … as an idempotent producer until told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.acknowledged: list[int] = []
        self.enough = Event()
        self._topic = topic
        settings = {"enable.idempotence": True, "message.timeout.ms": 120_000, "linger.ms": 5, "log_level": 0}
        # Without it a client comes back up to ten seconds after its broker, and most kills would hit an idle log.
        soon = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
        self._producer = Producer({"bootstrap.servers": bootstrap, **settings, **soon})

    def run(self) -> None:
        number = 0
        while not self.enough.is_set():
            self._producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
            number += 1
            # Few in flight: the test is about kills, and a flood would only make it slow.
            while len(self._producer) > IN_FLIGHT:
                self._producer.poll(0.1)
        self._producer.flush(120)

    def wait_for(self, acknowledged: int, deadline: Deadline) -> None:
        while len(self.acknowledged) < acknowledged:
            assert self.is_alive()
            assert not deadline.passed, f"{len(self.acknowledged)} of {acknowledged} writes acknowledged"
            deadline.clock.sleep(5)

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None
        self.acknowledged.append(int(message.value() or b"-1"))


def test_fifty_kills_in_the_middle_of_writes_lose_and_repeat_nothing(tmp_path: Path) -> None:
    stack, clock = Stack(tmp_path, tied=True), Clock()
    try:
        addresses = stack.up(kind="kafka")
        create_topic(addresses.kafka, "kills")
        writer = Writer(addresses.kafka, "kills")
        writer.start()
        for _ in range(ROUNDS):
            writer.wait_for(len(writer.acknowledged) + WRITES_A_ROUND, Deadline.after(clock, 60_000))
            assert stack.process("kafka-1").kill()
            assert stack.up() == addresses
        writer.enough.set()
        writer.join(timeout=180)
        assert not writer.is_alive()
        assert len(writer.acknowledged) >= ROUNDS * WRITES_A_ROUND
        found = [number for number, _ in read_all(addresses.kafka, "kills")]
        assert found == writer.acknowledged == list(range(len(found)))
    finally:
        stack.down()
