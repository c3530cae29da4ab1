"""Configuration to running ranks: `lead` on rank 0, `follow` on the others.

Order of a start: 1. the group; 2. rank 0 does what a single trainer does: the lease, the checkpoint, the ledger, the
topic; 3. it tells the others where the lineage stands; each opens its own partitions there, or says why not; 4. the
tables are sharded; 5. rank 0 fills them, and everything dense, from the checkpoint or anew; 6. training.
An error on rank 0 ends the others with its words; one on another rank is said by rank 0, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import torch

from streams.errors import ConfigError, InvariantError
from trainer.build import Around, learner_of, order_of, tensors_of, with_learner
from trainer.checkpoint.manifest import differences
from trainer.drain import Drain, Reason
from trainer.ledger import Positions, TopicIdentity
from trainer.loop import Trainer
from trainer.model import RecModel, build_model
from trainer.past import Past, open_past
from trainer.ranks.channel import Channel, LostRankError
from trainer.ranks.commands import Commands, heard
from trainer.ranks.composer import FollowingComposer, LeadingComposer
from trainer.ranks.dense import dense_of, send_dense
from trainer.ranks.feed import LeadingFeed
from trainer.ranks.follower import Follower
from trainer.ranks.group import joined
from trainer.ranks.local import Local
from trainer.ranks.messages import Start, Stop, words_of
from trainer.ranks.place import Place
from trainer.ranks.reading import Opened, open_own
from trainer.ranks.sharded_tables import ShardedTables, build_sharded_tables
from trainer.ranks.step import LeadingStep, SharedStep
from trainer.run_config import Switches, TrainerConfig
from trainer.summary import Summary
from trainer.tables import init_rows

Open = Callable[[TrainerConfig, Place, TopicIdentity | None, Positions, Around, Switches], Opened]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Job:
    """What a rank is started with."""

    config: TrainerConfig
    place: Place
    around: Around
    drain: Drain
    switches: Switches = field(default_factory=Switches)
    open: Open = open_own
    """Opens the partitions of this rank."""


def lead(job: Job) -> Summary:
    """Rank 0's run, to its end."""
    with _rank(job) as rank:
        try:
            summary = _trainer(rank).run()
        except LostRankError:
            raise
        except BaseException as error:
            with suppress(LostRankError):
                rank.commands.give(Stop(error=words_of(error)))
            raise
        rank.commands.give(Stop(reason=summary.exit_reason))
    return summary


def follow(job: Job) -> Reason:
    """Any other rank's run, until rank 0 says stop: why it did."""
    with _rank(job) as rank:
        return _follower(rank).run()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Rank:
    """A rank within its group. Each channel is one thread's."""

    job: Job
    device: torch.device
    loops: Channel
    composers: Channel
    commands: Commands

    @property
    def tasks(self) -> int:
        return len(self.job.config.schema.labels)

    def local(self, opened: Opened) -> Local:
        """Its side of composing steps."""
        config = self.job.config
        return Local(
            self.job.place,
            opened.reading,
            opened.buffer,
            tensors_of(config),
            config.train.step_samples,
            self.job.around.clock.now_ms,
            self.job.drain,
        )

    def model(self) -> tuple[RecModel, ShardedTables, SharedStep]:
        """A model whose tables are nobody's yet. A collective call."""
        config, place = self.job.config, self.job.place
        if config.train.device == "cpu":
            torch.set_num_threads(config.train.threads)
        ask = self.commands.ask_tables
        tables = build_sharded_tables(config.model, config.optimizer, place, self.device, self.loops, ask)
        model = build_model(
            config.schema, config.model, config.optimizer, config.train.seed, self.device, tables=tables
        )
        return model, tables, SharedStep(model, tables, config.optimizer, place)


@contextmanager
def _rank(job: Job) -> Iterator[_Rank]:
    config, place = job.config, job.place
    timeout_ms = config.train.rank_timeout_ms
    if config.train.hot_rows:
        raise ConfigError("train.hot_rows is for one process; remove it, or start without torchrun")
    if config.train.stall_positives:
        raise ConfigError("train.stall_positives is for one process: a rank knows only the labels of its own samples")
    if config.checkpoint.copy == "touched":
        raise ConfigError(
            'checkpoint.copy = "touched" is for one process: a rank knows only the rows of its own samples; set "whole"'
        )
    if job.switches.without_ledger:
        raise ConfigError("--without-ledger is for one process; start without torchrun")
    with joined(place, config.train.device, timeout_ms) as device:
        loops, composers = Channel(place, timeout_ms), Channel(place, timeout_ms)
        commands = Commands(loops, job.around.clock)
        yield _Rank(job=job, device=device, loops=loops, composers=composers, commands=commands)


def _trainer(rank: _Rank) -> Trainer:
    """Rank 0's trainer, which stands where the lineage in its directory stopped."""
    past = open_past(rank.job.config, rank.job.around.clock, rank.job.switches)
    try:
        return _leading(rank, past)
    except BaseException:
        past.close()
        raise


def _leading(rank: _Rank, past: Past) -> Trainer:
    job, config = rank.job, rank.job.config
    expected = past.checkpoint.manifest.progress.topic if past.checkpoint else None
    opened = job.open(config, job.place, expected, past.positions, job.around, job.switches)
    _tell_start(rank, past, opened.topic)
    model, _, step = rank.model()
    if past.checkpoint is None:
        init_rows(model.tables, config.model.tables, config.train.seed)
    learner = learner_of(config, model, LeadingStep(model, config.optimizer, step, rank.commands), past.checkpoint)
    send_dense(dense_of(model), rank.commands)
    composer = LeadingComposer(
        rank.composers,
        rank.local(opened),
        order_of(config, past),
        rank.tasks,
        job.drain,
        config.source.prefetch_steps,
        job.around.clock.now_ms,
        rank.commands.batches,
    )
    feed = LeadingFeed(opened.reading, composer, rank.commands)
    return with_learner(config, past, feed, opened.topic, learner, job.around, job.drain, job.switches)


def _tell_start(rank: _Rank, past: Past, topic: TopicIdentity) -> None:
    """Say where the lineage stands; raise what keeps another rank from standing there too."""
    config = rank.job.config
    start = Start(
        topic=topic,
        positions=past.positions,
        schema_fingerprint=f"{config.schema.fingerprint():016x}",
        config=config.weights_config(),
    )
    rank.commands.give(start)
    for number, refusal in enumerate(rank.loops.gather(b"")):
        if refusal:
            raise InvariantError(f"rank {number}: {refusal.decode()}")


def _follower(rank: _Rank) -> Follower:
    start = heard(rank.loops)
    if isinstance(start, Stop):
        raise InvariantError(f"rank 0 has stopped all ranks: {start.error}")
    assert isinstance(start, Start), "what rank 0 says first"
    try:
        opened = _opened(rank.job, start)
    except Exception as error:
        rank.loops.gather(words_of(error).encode())
        raise
    rank.loops.gather(b"")
    model, tables, step = rank.model()
    composer = FollowingComposer(rank.composers, rank.local(opened))
    return Follower(rank.loops, composer, opened.reading, tables, step, dense_of(model), rank.tasks)


def _opened(job: Job, start: Start) -> Opened:
    """This rank's partitions, where the lineage stands."""
    config = job.config
    found = differences(start.config, config.weights_config())
    if start.schema_fingerprint != f"{config.schema.fingerprint():016x}":
        found.append("the schema")
    if found:
        raise ConfigError(f"all ranks need the same configuration; rank 0's, and this one's: {'; '.join(found)}")
    return job.open(config, job.place, start.topic, start.positions, job.around, job.switches)
