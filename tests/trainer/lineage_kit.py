"""A small model, deterministic mini-batches for it, and a feed from memory. For the trainer's own tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from infra.clock import Clock
from streams.events.roles import Roles
from streams.events.schema import DenseFeature, EventSchema, FeatureGroup, History, Label, SparseFeature
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.kafka.client import KafkaConfig
from streams.metrics import Reporter, Silent
from streams.minibatch import Lineage, MiniBatch
from trainer.buffer import Buffer
from trainer.build import Around, assemble, prefetch
from trainer.checkpoint.config import CheckpointConfig
from trainer.config import AttentionConfig, ModelConfig, TableConfig, TrainConfig
from trainer.crash import Crash, never
from trainer.drain import Drain
from trainer.intake import Intake, Item
from trainer.ledger import TopicIdentity
from trainer.loop import Trainer
from trainer.past import Past, open_past
from trainer.prefetch import Prefetch
from trainer.ready import Nothing, Prepared
from trainer.run_config import Switches, TrainerConfig
from trainer.source_config import SourceConfig

SCHEMA = EventSchema(
    roles=Roles(event_id=("id",), user="user", item="item", time="at"),
    labels=(Label(name="like", field="like"),),
    sparse=(
        SparseFeature(name="user", field="user", table="users"),
        SparseFeature(name="item", field="item", table="items"),
    ),
    dense=(DenseFeature(name="hour", field="hour"),),
    histories=(History(name="liked", table="items", last=5),),
    groups=(FeatureGroup(name="who", features=("user", "liked")),),
)
MODEL = ModelConfig(
    tables={"users": TableConfig(rows=32), "items": TableConfig(rows=48)},
    dim=4,
    dense_layers=(4,),
    over_layers=(8,),
    pooling={"liked": "attention"},
    attention=AttentionConfig(heads=1, feedforward=8, max_length=5),
)
TOPIC = TopicIdentity(name="minibatches", topic_id="one", partitions=2)


def mini_batch(partition: int, sequence: int, samples: int = 6, *, poisoned: bool = False) -> MiniBatch:
    """The same columns for the same arguments: two samples a session, one row of group `who` each session."""
    draw = np.random.default_rng([partition, sequence])
    session = np.arange(samples) // 2
    users = draw.integers(0, 30, session.max() + 1)
    liked = [draw.integers(0, 40, draw.integers(0, 5)).tolist() for _ in users]
    start = 1_000 * sequence
    return MiniBatch(
        partition=partition,
        sequence=sequence,
        watermark_ms=start + 500 + partition,
        fingerprint=SCHEMA.fingerprint(),
        lineage=Lineage(
            offset=np.arange(sequence * samples, (sequence + 1) * samples),
            event_id=draw.integers(0, 2**63, samples, dtype=np.uint64),
            session_id=(session + sequence * samples).astype(np.uint64),
            event_time_ms=start + np.arange(samples),
            appended_ms=np.full(samples, -1),
        ),
        labels=draw.integers(0, 2, (samples, 1)).astype(np.float32),
        dense=np.full((samples, 1), np.inf if poisoned else 0.5, np.float32),
        groups=(
            deduplicate(
                "who",
                {
                    "user": Jagged.from_lists([[int(users[s])] for s in session]),
                    "liked": Jagged.from_lists([liked[s] for s in session]),
                },
            ),
            deduplicate("item", {"item": Jagged.from_lists([[int(i)] for i in draw.integers(0, 40, samples)])}),
        ),
    )


def topic(batches: int = 6, partitions: int = 2) -> dict[int, list[MiniBatch]]:
    """What a mini-batch topic holds."""
    return {number: [mini_batch(number, sequence) for sequence in range(batches)] for number in range(partitions)}


def config(
    directory: Path, *, every_steps: int = 1000, background: bool = False, lease_wait_ms: int = 5_000
) -> TrainerConfig:
    """A small trainer on one thread; steps of two mini-batches."""
    return TrainerConfig(
        kafka=KafkaConfig(),
        topic=TOPIC.name,
        schema=SCHEMA,
        model=MODEL,
        train=TrainConfig(step_samples=12, threads=1, window_samples=50, seed=3),
        source=SourceConfig(merge_wait_ms=20),
        checkpoint=CheckpointConfig(
            directory=str(directory), every_steps=every_steps, background=background, lease_wait_ms=lease_wait_ms
        ),
    )


class MemoryFeed:
    """A feed over mini-batches in memory, each at an offset of 2 * sequence, as if markers lay between them."""

    def __init__(self, log: Mapping[int, Sequence[MiniBatch]], past: Past, buffer: Buffer, composer: Prefetch) -> None:
        self._log = log
        self._buffer = buffer
        self._composer = composer
        self._positions = past.positions
        self._intakes = {number: Intake(number, past.positions.get(number)) for number in log}
        self.committed: dict[int, int] = {}
        self.commit_failures = 0

    def start(self) -> None:
        for number, batches in self._log.items():
            for batch in batches:
                # One record back, as a broker that delivers twice would.
                start = self._positions[number].next_offset - 2 if number in self._positions else 0
                if 2 * batch.sequence >= start and self._intakes[number].accepts(batch.sequence, 2 * batch.sequence):
                    self._buffer.put(Item(partition=number, offset=2 * batch.sequence, num_bytes=100, batch=batch))
            self._buffer.end(number)
        self._composer.start()

    def next(self, wait_ms: int) -> Prepared | Nothing:
        return self._composer.next(wait_ms)

    def peek(self) -> Prepared | None:
        return self._composer.peek()

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        self.committed.update(next_offsets)

    def stop(self) -> None:
        self._composer.stop()

    @property
    def duplicates(self) -> int:
        return sum(intake.duplicates for intake in self._intakes.values())


def trainer(
    settings: TrainerConfig,
    log: Mapping[int, Sequence[MiniBatch]],
    max_steps: int | None = None,
    crash: Crash = never,
    drain: Drain | None = None,
    reporter: Reporter | None = None,
    from_step: int | None = None,
) -> Trainer:
    """A trainer over `log` that goes on where the directory stands and stops at the end of the log."""
    clock = Clock()
    switches = Switches(exit_at_end=True, max_steps=max_steps, from_step=from_step)
    past = open_past(settings, clock, switches)
    buffer = Buffer(tuple(log), 10**9, 10**6, clock.now_ms)
    feed = MemoryFeed(log, past, buffer, prefetch(settings, past, buffer, clock.now_ms))
    around = Around(clock=clock, crash=crash, reporter=reporter or Silent())
    return assemble(settings, past, feed, TOPIC, around, drain or Drain(60_000), switches)
