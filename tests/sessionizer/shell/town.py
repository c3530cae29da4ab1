"""The small world on a real Kafka: topics, events, worker processes, and what they emitted.

Owns setting up, feeding, starting, killing and reading back. Never judges: tests do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition

from infra.clock import Clock, Deadline
from sessionizer.config import BatchConfig
from sessionizer.worker_config import WorkerConfig
from streams import wire
from streams.clock_mark import ClockMark, MarkKind
from streams.events.formats.config import FormatConfig
from streams.kafka import client, topics
from streams.kafka.client import KafkaConfig
from streams.kafka.end_record import END_HEADER
from streams.kafka.topics import TopicsConfig
from streams.minibatch import MiniBatch
from tests.sessionizer.shell.world import BATCHES

# The first worker of a machine compiles for more than a minute before it begins, twice as long beside another test.
WAIT_MS = 300_000


@dataclass
class Town:
    """Topics of one test, and the workers on them."""

    kafka: KafkaConfig
    topics: TopicsConfig
    directory: Path
    clock: Clock = field(default_factory=Clock)
    format: FormatConfig = field(default_factory=FormatConfig)
    redis: str = ""
    """URL of the server where profiles are kept; empty: they are kept in the cuts."""
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def build(self) -> None:
        topics.ensure(client.admin(self.kafka), self.topics)

    def produce(self, partition: int, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Append records to a partition of the interactions topic."""
        producer = client.producer(self.kafka, client_id="town")
        for key, value in pairs:
            producer.produce(self.topics.interactions, value, key, partition)
        assert producer.flush(WAIT_MS / 1000) == 0

    def produce_at_once(self, partition: int, pairs: Sequence[tuple[bytes, bytes]], *, commit: bool = True) -> None:
        """Append records in one transaction, which is aborted unless `commit`; a marker that nobody reads follows."""
        name = f"{self.topics.interactions}-{partition}"
        producer = client.producer(self.kafka, client_id="town", transactional_id=name)
        producer.init_transactions(WAIT_MS / 1000)
        producer.begin_transaction()
        for key, value in pairs:
            producer.produce(self.topics.interactions, value, key, partition)
        assert producer.flush(WAIT_MS / 1000) == 0
        if commit:
            producer.commit_transaction(WAIT_MS / 1000)
        else:
            producer.abort_transaction(WAIT_MS / 1000)

    def end_of(self, partition: int) -> int:
        """Offset after everything that is in a partition of the interactions, read or not."""
        return self._end(TopicPartition(self.topics.interactions, partition), committed=False)

    def mark(self, mark: ClockMark) -> None:
        """Append a record to the clock topic."""
        producer = client.producer(self.kafka, client_id="town")
        producer.produce(self.topics.clock, mark.encode(), None, mark.partition)
        assert producer.flush(WAIT_MS / 1000) == 0

    def end(self, partition: int, after_offset: int) -> None:
        self.mark(ClockMark(partition=partition, after_offset=after_offset, kind=MarkKind.END))

    def start(
        self,
        *,
        exit_at_end: bool = True,
        dies_at: int = 0,
        max_poll_ms: int = 0,
        batch: BatchConfig = BATCHES,
        **worker: object,
    ) -> subprocess.Popen[str]:
        """A worker process. Small polls and quick commits, so that much can happen in a short test.

        `dies_at`: it kills itself when it is about to write changed profiles to Redis for the n-th time.
        `max_poll_ms`: it must leave the group when it has not polled for so long; 0: as in life.
        """
        config = WorkerConfig(
            app=f"{self.topics.minibatches}-app", commit_every_ms=100, cut_every_ms=300, session_timeout_ms=6_000
        )
        settings = {
            "kafka": asdict(self.kafka),
            "topics": asdict(self.topics),
            "format": asdict(self.format),
            "batch": asdict(batch),
            "worker": asdict(replace(config, **worker)),  # type: ignore[arg-type]  # the caller names fields of it
            "directory": str(self.directory / f"worker-{len(self.workers)}"),
            "exit_at_end": exit_at_end,
            "redis": self.redis,
            "dies_at": dies_at,
            "max_poll_ms": max_poll_ms,
        }
        command = [sys.executable, "-m", "tests.sessionizer.shell.worker_main", json.dumps(settings)]
        with (self.directory / f"worker-{len(self.workers)}.log").open("w") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.workers.append(process)
        return process

    def summary(self, process: subprocess.Popen[str]) -> dict[str, object]:
        """What a worker printed last, after it has ended well."""
        out, _ = process.communicate(timeout=WAIT_MS / 1000)
        assert process.returncode == 0, self.logs()
        return dict(json.loads(out.splitlines()[-1]))

    def logs(self) -> str:
        """Everything the workers logged."""
        return "\n".join(path.read_text() for path in sorted(self.directory.glob("*.log")))

    def read(self, topic: str, partition: int, *, committed: bool = True) -> list[Message]:
        """Every record of a partition, as a reader of committed records sees it."""
        place = TopicPartition(topic, partition)
        # Of all that is there by now, nothing is in a transaction whose end has still to be written down: the client
        # need not wait for it.
        settled = self._end(place, committed=False) <= self._end(place, committed=True)
        consumer = client.consumer(
            self.kafka,
            group="town",
            read_committed=committed,
            partition_eof=True,
            extra=client.END_SOON if settled else None,
        )
        try:
            low, _ = consumer.get_watermark_offsets(place, 10)
            consumer.assign([TopicPartition(topic, partition, low)])
            return list(self._until_end(consumer))
        finally:
            consumer.close()

    def batches(self, partition: int) -> list[MiniBatch]:
        """The mini-batches of a partition in the order of the topic."""
        messages = self.read(self.topics.minibatches, partition)
        return [wire.decode(message.value() or b"") for message in messages if not is_end(message)]

    def ends(self, partition: int) -> int:
        """End records of a partition."""
        return sum(is_end(message) for message in self.read(self.topics.minibatches, partition))

    def num_output(self) -> int:
        """Records of the mini-batch topic, all partitions together, control records included."""
        consumer = client.consumer(self.kafka, group="town")
        try:
            return self._count(consumer)
        finally:
            consumer.close()

    def wait_for_output(self, records: int) -> None:
        """Until the mini-batch topic has so many records, as `num_output` counts."""
        consumer = client.consumer(self.kafka, group="town")
        deadline = Deadline.after(self.clock, WAIT_MS)
        try:
            while self._count(consumer) < records:
                assert not deadline.passed, self.logs()
                self.clock.sleep(5)
        finally:
            consumer.close()

    def wait_for_log(self, worker: int, words: str) -> None:
        """Until a worker has logged something."""
        deadline = Deadline.after(self.clock, WAIT_MS)
        while words not in (self.directory / f"worker-{worker}.log").read_text():
            assert not deadline.passed, self.logs()
            self.clock.sleep(20)

    def _end(self, place: TopicPartition, *, committed: bool) -> int:
        consumer = client.consumer(self.kafka, group="town", read_committed=committed)
        try:
            return int(consumer.get_watermark_offsets(place, 10, cached=False)[1])
        finally:
            consumer.close()

    def _count(self, consumer: Consumer) -> int:
        places = [TopicPartition(self.topics.minibatches, p) for p in range(self.topics.partitions)]
        return sum(consumer.get_watermark_offsets(place, 10)[1] for place in places)

    def _until_end(self, consumer: Consumer) -> Iterator[Message]:
        deadline = Deadline.after(self.clock, WAIT_MS)
        while not deadline.passed:
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                return
            yield message
        raise AssertionError("the end of the partition was not reached")


def is_end(message: Message) -> bool:
    """Whether this is an end record."""
    return END_HEADER in dict(message.headers() or ())


@contextmanager
def town(bootstrap: str, name: str, directory: Path, *, partitions: int = 1) -> Iterator[Town]:
    """A town with its topics; no worker survives it."""
    config = TopicsConfig(interactions=name, minibatches=f"{name}-batches", partitions=partitions)
    built = Town(KafkaConfig(bootstrap=bootstrap), config, directory)
    built.build()
    try:
        yield built
    finally:
        for process in built.workers:
            process.kill()
            process.communicate()
