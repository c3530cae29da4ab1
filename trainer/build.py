"""Configuration to a running trainer: the only place that knows how the parts fit together.

Order of a start, of which the first four are `past`: 1. the lease; 2. the newest checkpoint that verifies; 3. it fits
the configuration; 4. the ledger, its torn tail cut; 5. the topic is the checkpoint's, and holds what is due; 6. model
and metrics take over the state; 7. reader and composer begin at the checkpoint's positions, with the ledger's order
first.
Never trains; `loop` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from confluent_kafka import Consumer, TopicPartition

from streams import wire
from streams.errors import WireError
from streams.kafka.client import consumer
from streams.metrics import Reporter, Silent
from streams.minibatch import MiniBatch
from trainer import topic as topics
from trainer.account import Account
from trainer.buffer import Buffer
from trainer.checkpoint.load import Checkpoint
from trainer.checkpoint.saver import Saver
from trainer.checkpoint.touched import Touched
from trainer.crash import Crash, never
from trainer.drain import Drain
from trainer.evaluate import SAMPLED_STREAM, WHOLE_STREAM, Evaluator
from trainer.feed import Feed, KafkaFeed
from trainer.guards import SkipGuard
from trainer.intake import Intake
from trainer.kept import Kept
from trainer.learner import Learner
from trainer.ledger import Position, TopicIdentity
from trainer.lineage import Identity, Lineage
from trainer.loop import RunOptions, Surroundings, Trainer
from trainer.model import RecModel, build_model
from trainer.order import Order
from trainer.past import Past, open_past
from trainer.ports import Clock
from trainer.prefetch import Prefetch
from trainer.run_config import CHECKPOINTS, SKIPPED, Switches, TrainerConfig
from trainer.source import Commits, Source
from trainer.stall import StallGuard
from trainer.step import Step
from trainer.tables import Tier
from trainer.tensors import StepBatch, to_tensors
from trainer.watcher import Nobody, Watcher


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Around:
    """What a trainer is told by and reports to. Only the clock has no default."""

    clock: Clock
    reporter: Reporter = field(default_factory=Silent)
    watcher: Watcher = field(default_factory=Nobody)
    crash: Crash = never


def build_trainer(config: TrainerConfig, around: Around, drain: Drain, switches: Switches | None = None) -> Trainer:
    """A trainer that stands where the lineage in its directory stopped. Raises in words where it must not start."""
    switches = switches or Switches()
    past = open_past(config, around.clock, switches)
    try:
        reader, topic, commits = _reader(config, past, around, switches)
        feed = _feed(config, past, reader, topic, commits, around, switches)
        return assemble(config, past, feed, topic, around, drain, switches)
    except BaseException:
        past.close()
        raise


def assemble(
    config: TrainerConfig,
    past: Past,
    feed: Feed,
    topic: TopicIdentity,
    around: Around,
    drain: Drain,
    switches: Switches,
) -> Trainer:
    """The trainer over any feed that begins where `past` stopped."""
    return with_learner(config, past, feed, topic, build_learner(config, past.checkpoint), around, drain, switches)


def with_learner(
    config: TrainerConfig,
    past: Past,
    feed: Feed,
    topic: TopicIdentity,
    learner: Learner,
    around: Around,
    drain: Drain,
    switches: Switches,
) -> Trainer:
    """The same around a learner that stands where `past` stopped."""
    if config.train.device == "cpu":
        torch.set_num_threads(config.train.threads)
    saver = Saver(
        config.checkpoint,
        config.directory / CHECKPOINTS,
        past.step,
        past.lease.check,
        around.clock,
        around.reporter,
        around.crash,
        Path(config.train.cold_directory) if config.train.hot_rows else None,
    )
    if config.checkpoint.copy == "touched":
        saver.keep_copy(learner.state())
    kept = Kept(config.directory / SKIPPED, config.schema, config.train.keep_skipped)
    return Trainer(
        feed,
        learner,
        _lineage(config, past, topic),
        saver,
        Surroundings(around.clock, around.reporter, around.watcher, drain, around.crash, kept),
        RunOptions(exit_at_end=switches.exit_at_end, max_steps=switches.max_steps),
    )


def _reader(
    config: TrainerConfig, past: Past, around: Around, switches: Switches
) -> tuple[Consumer, TopicIdentity, Commits]:
    reader, topic, commits = open_topic(config, around, switches)
    if past.checkpoint is not None:
        topics.check_same(past.checkpoint.manifest.progress.topic, topic)
    return reader, topic, commits


def open_topic(config: TrainerConfig, around: Around, switches: Switches) -> tuple[Consumer, TopicIdentity, Commits]:
    """The mini-batch topic, and a consumer that has nothing assigned yet."""
    commits = Commits(around.reporter, silent=switches.without_ledger)
    control = {"enable.auto.commit": True, "enable.auto.offset.store": True, "auto.commit.interval.ms": 100}
    extra = control if switches.without_ledger else {}
    reader = consumer(
        config.kafka,
        group=config.source.group,
        partition_eof=True,
        extra={"on_commit": commits.settle, "fetch.wait.max.ms": config.source.poll_ms, **extra},
    )
    topic = topics.find(reader, config.kafka, config.topic, config.source.start_wait_ms, around.clock.sleep)
    return reader, topic, commits


def _feed(
    config: TrainerConfig,
    past: Past,
    reader: Consumer,
    topic: TopicIdentity,
    commits: Commits,
    around: Around,
    switches: Switches,
) -> KafkaFeed:
    now_ms = around.clock.now_ms
    if switches.without_ledger:
        offsets = topics.committed(reader, topic, config.source.start_wait_ms, around.clock.sleep)
        begin: dict[int, tuple[int, Position | None]] = {number: (offset, None) for number, offset in offsets.items()}
    else:
        begin = topics.starts(reader, topic, past.positions)
    source, buffer = source_of(config, reader, topic, commits, begin, now_ms, switches)
    return KafkaFeed(source, prefetch(config, past, buffer, now_ms), commits)


def source_of(
    config: TrainerConfig,
    reader: Consumer,
    topic: TopicIdentity,
    commits: Commits,
    begin: Mapping[int, tuple[int, Position | None]],
    now_ms: Callable[[], int],
    switches: Switches,
) -> tuple[Source, Buffer]:
    """The reader of the partitions that have a beginning, and the buffer that it fills."""
    source, ordered = config.source, not switches.without_ledger
    reader.assign([TopicPartition(topic.name, number, offset) for number, (offset, _) in begin.items()])
    buffer = Buffer(list(begin), source.queue_bytes, source.queue_batches, now_ms)
    intakes = {number: Intake(number, position, ordered=ordered) for number, (_, position) in begin.items()}
    decode = partial(_decode, fingerprint=config.schema.fingerprint())
    return Source(reader, topic.name, intakes, buffer, decode, source, commits, switches.end_epoch), buffer


def prefetch(config: TrainerConfig, past: Past, buffer: Buffer, now_ms: Callable[[], int]) -> Prefetch:
    """The composer over a buffer: the ledger's order first, then live order."""
    return Prefetch(buffer, order_of(config, past), tensors_of(config), now_ms, config.source.prefetch_steps)


def order_of(config: TrainerConfig, past: Past) -> Order:
    """The ledger's order first, then live order."""
    return Order(past.recorded, config.train.step_samples, config.source.merge_wait_ms)


def tensors_of(config: TrainerConfig) -> Callable[[Sequence[MiniBatch]], StepBatch]:
    """Mini-batches to the tensors of one step."""
    return partial(to_tensors, schema=config.schema, model=config.model, correct_sampling=config.train.correct_sampling)


def _decode(value: bytes, fingerprint: int) -> MiniBatch:
    batch = wire.decode(value)
    if batch.fingerprint != fingerprint:
        raise WireError(
            f"the mini-batch was built under schema {batch.fingerprint:016x}, the trainer is configured for "
            f"{fingerprint:016x}; restore the schema, or begin a new lineage on a new topic"
        )
    return batch


def build_learner(config: TrainerConfig, checkpoint: Checkpoint | None) -> Learner:
    """Model and metrics, fresh or as they were saved."""
    train = config.train
    tier = Tier(train.hot_rows, Path(train.cold_directory)) if train.hot_rows else None
    model = build_model(config.schema, config.model, config.optimizer, train.seed, train.device, tier)
    return learner_of(config, model, Step(model, config.optimizer), checkpoint)


def learner_of(config: TrainerConfig, model: RecModel, step: Step, checkpoint: Checkpoint | None) -> Learner:
    """A learner that stands at the checkpoint, or at the beginning."""
    stream = WHOLE_STREAM if config.train.correct_sampling else SAMPLED_STREAM
    evaluator = Evaluator([label.name for label in config.schema.labels], config.train.window_samples, stream)
    touched = Touched(config.model.tables if config.checkpoint.copy == "touched" else {})
    guard = SkipGuard(config.train.max_skipped_steps)
    stall = StallGuard(len(config.schema.labels), config.train.stall_positives)
    learner = Learner(model, step, evaluator, guard, stall, touched)
    if checkpoint is not None:
        learner.load_state(checkpoint.tensors())
    return learner


def _lineage(config: TrainerConfig, past: Past, topic: TopicIdentity) -> Lineage:
    identity = Identity(
        epoch=past.lease.epoch,
        topic=topic,
        seed=config.train.seed,
        schema_fingerprint=f"{config.schema.fingerprint():016x}",
        config=config.weights_config(),
    )
    before = past.checkpoint.manifest.progress if past.checkpoint else None
    return Lineage(
        identity,
        past.lease,
        past.ledger,
        past.step,
        past.positions,
        before.account if before else Account(),
        before.watermark_ms if before else -1,
        past.skips,
    )
