"""A migration: the beginning of a new lineage in a directory of its own. The old lineage is only read.

Order; a death before 5 leaves nothing but a left-over that the next attempt removes:
1. the plan, refused in words;
2. the lease of the old lineage, which no trainer may hold;
3. the old checkpoint, verified, and the new state;
4. ledger, lease record and checkpoint into a directory beside the new one;
5. one rename.
The ledger is copied whole, so that it still proves what the weights have seen, and gets a line of the migration.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from streams.errors import ConfigError, InvariantError
from trainer.build import build_learner
from trainer.checkpoint import store
from trainer.checkpoint.load import Checkpoint, at_step, check_fits, newest
from trainer.checkpoint.manifest import Progress
from trainer.crash import never
from trainer.durable import sync_directory
from trainer.lease import Lease
from trainer.ledger import Kind, Line, TopicIdentity, after, lineage
from trainer.ledger_file import LedgerFile
from trainer.migrate.carry import migrated
from trainer.migrate.plan import Side, plan
from trainer.ports import Clock
from trainer.run_config import CHECKPOINTS, LEDGER, TrainerConfig

_PARTIAL: Final = ".migrating"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What a migration does."""

    checkpoint: Checkpoint
    changes: tuple[str, ...]
    same_topic: bool
    """The new lineage goes on at the old positions; otherwise at the beginning of its own topic."""


def migration(was: TrainerConfig, now: TrainerConfig, step: int | None = None) -> Migration:
    """The plan over the checkpoint of `step`, or the newest that verifies. Changes nothing."""
    changes = plan(side(was), side(now))
    directory = was.directory / CHECKPOINTS
    checkpoint = (newest(directory) if step is None else at_step(directory, step)).checkpoint
    if checkpoint is None:
        raise ConfigError(f"{directory} holds no checkpoint that verifies; name the configuration it was trained under")
    check_fits(checkpoint.manifest, f"{was.schema.fingerprint():016x}", was.weights_config())
    if now.directory.exists() and any(now.directory.iterdir()):
        raise ConfigError(
            f"{now.directory} is not empty; a migrated checkpoint begins a new lineage: give it its own "
            "checkpoint.directory"
        )
    return Migration(checkpoint=checkpoint, changes=changes, same_topic=was.topic == now.topic)


def migrate(
    was: TrainerConfig, now: TrainerConfig, asked: Migration, clock: Clock, find_topic: Callable[[], TopicIdentity]
) -> Path:
    """Carry the checkpoint over; its path. Refused while a trainer works in the old directory."""
    lease = Lease.take(was.directory, clock.now_ms(), 0, clock.sleep)
    try:
        partial = now.directory.with_name(f"{now.directory.name}{_PARTIAL}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        progress = _progress(asked, now, lease.epoch, clock.now_ms(), find_topic)
        shutil.copy2(was.directory / "lease.json", partial)
        shutil.copytree(was.directory / LEDGER, partial / LEDGER)
        _note(partial / LEDGER, progress, asked)
        old, fresh = build_learner(was, asked.checkpoint).state(), build_learner(now, None).state()
        state = migrated(old, fresh, side(was), side(now))
        shard_bytes = now.checkpoint.shard_bytes
        store.write(partial / CHECKPOINTS, progress, state, shard_bytes, lease.check, never)
        sync_directory(partial)
        partial.rename(now.directory)
        sync_directory(now.directory.parent)
    finally:
        lease.release()
    return now.directory / CHECKPOINTS / store.name_of(progress.step)


def side(config: TrainerConfig) -> Side:
    """What a plan compares of a configuration."""
    return Side(schema=config.schema, model=config.model, weights=config.weights_config())


def _progress(
    asked: Migration, now: TrainerConfig, epoch: int, now_ms: int, find_topic: Callable[[], TopicIdentity]
) -> Progress:
    before = asked.checkpoint.manifest.progress
    return msgspec.structs.replace(
        before,
        epoch=epoch,
        created_ms=now_ms,
        topic=before.topic if asked.same_topic else find_topic(),
        positions=before.positions if asked.same_topic else {},
        schema_fingerprint=f"{now.schema.fingerprint():016x}",
        config=now.weights_config(),
    )


def _note(directory: Path, progress: Progress, asked: Migration) -> None:
    ledger, lines, _ = LedgerFile.open(directory, progress.step)
    try:
        trained = lineage(lines)
        if not trained or trained[-1].step < progress.step:
            raise InvariantError(f"{directory} does not reach step {progress.step}; restore the old lineage's ledger")
        if after(lines, progress.step):
            ledger.append(Line(step=progress.step, epoch=progress.epoch, kind=Kind.REWIND))
        reason = f"from {asked.checkpoint.path}: " + ("; ".join(asked.changes) or "no change")
        ledger.append(Line(step=progress.step, epoch=progress.epoch, kind=Kind.MIGRATED, reason=reason))
    finally:
        ledger.close()
