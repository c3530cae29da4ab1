"""What an earlier trainer left in the directory of a lineage, taken over under a lease; refused where it does not fit.

Owns going back to an older checkpoint. Builds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from streams.errors import InvariantError
from trainer.checkpoint import store
from trainer.checkpoint.load import Checkpoint, at_step, check_fits, newest
from trainer.lease import Lease
from trainer.ledger import Kind, Line, Positions, after, lineage, skipped
from trainer.ledger_file import LedgerFile
from trainer.ports import Clock
from trainer.run_config import CHECKPOINTS, LEDGER, Switches, TrainerConfig

_LOG: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Past:
    """What an earlier trainer left in the directory, and the lease over it."""

    lease: Lease
    checkpoint: Checkpoint | None
    ledger: LedgerFile
    recorded: list[Line]
    """Steps after the checkpoint, to be repeated."""
    skips: set[int]

    def close(self) -> None:
        """Let go of the directory: the trainer was not to be."""
        self.ledger.close()
        self.lease.release()

    @property
    def step(self) -> int:
        """The checkpoint's; 0 without one."""
        return self.checkpoint.manifest.progress.step if self.checkpoint else 0

    @property
    def positions(self) -> Positions:
        """Where the checkpoint stands."""
        return dict(self.checkpoint.manifest.progress.positions) if self.checkpoint else {}


def open_past(config: TrainerConfig, clock: Clock, switches: Switches | None = None) -> Past:
    """Take the lease, and read what an earlier trainer left; refused in words where it does not fit."""
    lease = Lease.take(config.directory, clock.now_ms(), config.checkpoint.lease_wait_ms, clock.sleep)
    try:
        return _past(config, lease, switches or Switches())
    except BaseException:
        lease.release()
        raise


def _past(config: TrainerConfig, lease: Lease, switches: Switches) -> Past:
    checkpoints, back = config.directory / CHECKPOINTS, switches.from_step
    found = newest(checkpoints) if back is None else at_step(checkpoints, back)
    checkpoint = found.checkpoint
    if checkpoint is not None:
        check_fits(checkpoint.manifest, f"{config.schema.fingerprint():016x}", config.weights_config())
    step = checkpoint.manifest.progress.step if checkpoint else 0
    ledger, lines, torn = LedgerFile.open(config.directory / LEDGER, step)
    # Before the ledger says so: a death in between leaves a trainer that stands there, and repeats.
    _set_aside(
        found.damaged if back is None else [path for path in store.found(checkpoints) if store.step_of(path) > back]
    )
    if torn:
        _LOG.warning("ledger_tail_cut", num_bytes=torn, remedy="the step it began is trained again in live order")
    recorded = after(lines, step)
    _check_reaches(lines, step, config.directory)
    if recorded and (back is not None or switches.without_ledger):
        _LOG.warning("lineage_rewound", step=step, steps_void=len(recorded))
        lines.append(Line(step=step, epoch=lease.epoch, kind=Kind.REWIND))
        ledger.append(lines[-1])
        recorded = []
    _LOG.info("lineage_found", epoch=lease.epoch, step=step, steps_to_repeat=len(recorded))
    return Past(lease=lease, checkpoint=checkpoint, ledger=ledger, recorded=recorded, skips=skipped(lines))


def _set_aside(paths: Iterable[Path]) -> None:
    """Checkpoints newer than the one in use must not be met again when their step is reached."""
    for path in paths:
        store.set_aside(path)


def _check_reaches(lines: Sequence[Line], step: int, directory: Path) -> None:
    """The ledger is forced to the disk before every manifest: one that ends earlier is not the whole ledger."""
    steps = [line.step for line in lineage(lines)]
    if step and (not steps or steps[-1] < step):
        raise InvariantError(
            f"{directory / LEDGER} ends at step {steps[-1] if steps else 0}, but a checkpoint stands at step {step}; "
            "restore the ledger: without it nothing proves what the weights have seen"
        )
