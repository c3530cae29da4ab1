"""What a worker is made of, and how a partition is made from it.

Owns the wiring (decoder → core → outlet, and what stands beside them). Never runs anything, and never decides what an
event means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sessionizer.changelog import KafkaChangelog
from sessionizer.config import BatchConfig, JoinConfig, ProfilesConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.emit import open_outlet
from sessionizer.freshness import Freshness, FreshPlace
from sessionizer.gate import Gate, GatePlace
from sessionizer.makers import Makers
from sessionizer.partition import Partition
from sessionizer.profile_copy import CopyPlace, Pause, ProfileCopy
from sessionizer.recovery import KafkaJournal
from sessionizer.reporting import PartitionReport
from sessionizer.trainer_place import TrainerPlace
from sessionizer.worker_config import WorkerConfig
from state.profile_store import ProfileStore, shelf_name
from streams.events.decode import EventDecoder
from streams.events.formats.choose import choose
from streams.events.formats.config import FormatConfig
from streams.events.outcomes_topic import OutcomesDecoder, outcomes_schema
from streams.events.schema import EventSchema
from streams.inputs import Input, Position
from streams.kafka.client import KafkaConfig
from streams.kafka.registry import Registry
from streams.kafka.topics import TopicsConfig
from streams.metrics import Reporter

Log = Callable[[str, Mapping[str, object]], None]
"""Takes an event's name and its fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything a worker is made of."""

    kafka: KafkaConfig
    topics: TopicsConfig
    schema: EventSchema
    session: SessionConfig
    join: JoinConfig
    batch: BatchConfig
    worker: WorkerConfig
    reporter: Reporter
    now_ms: Callable[[], int]
    """The wall clock, for what is decided by it."""
    log: Log
    format: FormatConfig = field(default_factory=FormatConfig)
    profiles: ProfilesConfig = field(default_factory=ProfilesConfig)
    trainer_group: str = "recd-trainer"  # Where the trainer commits what is in a checkpoint.
    profile_store: ProfileStore | None = None  # Where working copies of profiles are, if `profiles` says so.

    def partition(self, partition: int, pause: Pause) -> Partition:
        """Recover one partition, which waits by `pause`; fences every older owner."""
        makers = Makers(
            outlet=lambda: open_outlet(partition, self.kafka, self.topics, self.worker),
            journal=lambda: KafkaJournal(partition, self.kafka, self.topics, warn=lambda text: self.log(text, {})),
            core=lambda cut, offset: self._core(partition, cut, offset),
            freshness=lambda report, now_ms: self._freshness(partition, report, now_ms),
            decoder=self._decoder(self.schema, Input.INTERACTIONS),
            outcomes=self._outcomes_decoder() if self.topics.outcomes else None,
            profiles=self._profile_copy(partition, pause),
            gate=(lambda report: self._gate(partition, report)) if self.worker.max_ahead_bytes else None,
        )
        report = PartitionReport(self.reporter, partition)
        return Partition(
            partition, makers, self.worker, report, now_ms=self.now_ms, lateness_ms=self.session.lateness_ms
        )

    def _freshness(self, partition: int, report: PartitionReport, now_ms: int) -> Freshness:
        to_trainer = self.worker.max_ahead_bytes > 0
        place = FreshPlace(partition=partition, batch=self.batch, to_trainer=to_trainer, log=self.log)
        return Freshness(place, report, now_ms)

    def _gate(self, partition: int, report: PartitionReport) -> Gate:
        topic, group, worker = self.topics.minibatches, self.trainer_group, self.worker
        place = GatePlace(
            partition=partition,
            topic=topic,
            group=group,
            max_bytes=worker.max_ahead_bytes,
            shed_step_ms=worker.shed_step_ms if worker.when_ahead == "shed" else None,
            log=self.log,
        )
        return Gate(place, TrainerPlace(self.kafka, topic, partition, group), report, self.now_ms())

    def _profile_copy(self, partition: int, pause: Pause) -> Callable[[], ProfileCopy] | None:
        if not self.profiles.external:
            return None
        store, name = self.profile_store, shelf_name(self.topics.profiles, partition)
        assert store is not None, "profiles are kept outside: a job needs their store"
        place = CopyPlace(partition=partition, shelf=name, reporter=self.reporter, log=self.log, pause=pause)
        return lambda: ProfileCopy(place, store, KafkaChangelog(partition, self.kafka, self.topics))

    def _decoder(self, schema: EventSchema, source: Input) -> EventDecoder:
        its = self.format.of(source)
        return EventDecoder(schema, choose(its, schema, lambda: Registry(its)))

    def _outcomes_decoder(self) -> OutcomesDecoder:
        return OutcomesDecoder(self._decoder(outcomes_schema(self.schema), Input.OUTCOMES), self.schema)

    def _core(self, partition: int, cut: bytes | None, start: Position) -> PartitionCore:
        two, made = self.topics.outcomes is not None, (self.schema, self.session, self.batch)
        if cut is None:
            core = PartitionCore(*made, partition, self.join, self.profiles, with_outcomes=two)
        else:
            core = PartitionCore.restore(*made, cut, self.join, self.profiles, with_outcomes=two)
        core.position = start
        return core
