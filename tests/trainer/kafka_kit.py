"""A real mini-batch topic, written as the sessionizer writes it, and the audit of what was trained from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from infra.clock import Clock
from streams import wire
from streams.kafka import client, topics
from streams.kafka.client import KafkaConfig
from streams.kafka.end_record import end_record
from streams.kafka.topics import TopicsConfig
from streams.minibatch import MiniBatch
from tests.trainer import lineage_kit
from trainer.build import Around, build_trainer
from trainer.drain import Drain
from trainer.ledger import Kind, lineage
from trainer.ledger_file import read
from trainer.run_config import LEDGER, Switches, TrainerConfig
from trainer.summary import Summary


@dataclass(frozen=True, slots=True)
class MiniBatchTopic:
    """One test's topic."""

    kafka: KafkaConfig
    names: TopicsConfig

    @property
    def name(self) -> str:
        return self.names.minibatches

    @property
    def admin(self) -> AdminClient:
        return client.admin(self.kafka)

    def write(self, *batches: MiniBatch) -> None:
        """The mini-batches in one transaction."""
        self.write_raw(*((batch.partition, wire.encode(batch)) for batch in batches))

    def write_raw(self, *records: tuple[int, bytes]) -> None:
        """Any values in one transaction."""
        producer = self._producer()
        producer.begin_transaction()
        for partition, value in records:
            producer.produce(self.name, value, partition=partition)
        producer.commit_transaction(30)

    def write_and_abort(self, *batches: MiniBatch) -> None:
        """What a sessionizer leaves behind that died within a transaction."""
        producer = self._producer()
        producer.begin_transaction()
        for batch in batches:
            producer.produce(self.name, wire.encode(batch), partition=batch.partition)
        producer.flush(30)
        producer.abort_transaction(30)

    def end(self, epoch: int = 0) -> None:
        """The end record of an epoch in every partition."""
        producer = self._producer()
        producer.begin_transaction()
        value, headers = end_record(epoch)
        for partition in range(self.names.partitions):
            producer.produce(self.name, value, partition=partition, headers=list(headers))
        producer.commit_transaction(30)

    def _producer(self) -> Producer:
        producer = client.producer(self.kafka, client_id="test", transactional_id=f"{self.name}-writer")
        producer.init_transactions(30)
        return producer


def make_topic(bootstrap: str, name: str, partitions: int = 2) -> MiniBatchTopic:
    """An empty mini-batch topic named after the test."""
    names = TopicsConfig(interactions=f"{name}-events", minibatches=name, partitions=partitions)
    kafka = KafkaConfig(bootstrap=bootstrap)
    topics.ensure(client.admin(kafka), names)
    return MiniBatchTopic(kafka, names)


def write_log(topic: MiniBatchTopic, log: Mapping[int, Sequence[MiniBatch]], per_transaction: int = 5) -> None:
    """Every partition's mini-batches, a few in each transaction, with an aborted one in between."""
    longest = max(len(batches) for batches in log.values())
    for start in range(0, longest, per_transaction):
        part = [batch for batches in log.values() for batch in batches[start : start + per_transaction]]
        if start == per_transaction:
            topic.write_and_abort(*part)
        topic.write(*part)


def config(topic: MiniBatchTopic, directory: Path, *, every_steps: int = 1000) -> TrainerConfig:
    """A small trainer over a real topic; the group has the topic's name."""
    settings = lineage_kit.config(directory, every_steps=every_steps)
    return replace(
        settings,
        kafka=topic.kafka,
        topic=topic.name,
        source=replace(settings.source, group=topic.name, start_wait_ms=1_000),
    )


def train(settings: TrainerConfig, max_steps: int | None = None, *, end_epoch: int = 0) -> Summary:
    """Train in this process until the end records, or for so many steps."""
    switches = Switches(exit_at_end=True, max_steps=max_steps, end_epoch=end_epoch)
    return build_trainer(settings, Around(clock=Clock()), Drain(60_000), switches).run()


@dataclass(frozen=True, slots=True)
class Audit:
    """What is wrong with a lineage: samples by partition, impression and stage."""

    missing: int
    twice: int

    @property
    def exact(self) -> bool:
        return not (self.missing or self.twice)


def audit(directory: Path, log: Mapping[int, Sequence[MiniBatch]]) -> Audit:
    """Each sample of the log must stand in the model's lineage exactly once."""
    trained = Counter(
        (entry.partition, identity)
        for line in lineage(read(directory / LEDGER))
        for entry in line.batches
        for identity in log[entry.partition][entry.sequence].identities()
    )
    due = {(batch.partition, identity) for batch in _all(log) for identity in batch.identities()}
    return Audit(missing=len(due - trained.keys()), twice=sum(count > 1 for count in trained.values()))


def trained_steps(directory: Path) -> int:
    """Steps that the ledger holds now."""
    return sum(line.kind is Kind.TRAINED for line in read(directory / LEDGER))


def _all(log: Mapping[int, Sequence[MiniBatch]]) -> Iterable[MiniBatch]:
    return (batch for batches in log.values() for batch in batches)
