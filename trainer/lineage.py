"""Where the lineage stands: step, positions, account, and the ledger that is written ahead of them.

Everything here moves when a step begins or is settled, in the loop's thread only, and goes into a checkpoint as one
`Progress`. Never trains and never writes a checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from trainer.account import Account
from trainer.checkpoint.manifest import Progress
from trainer.lease import Lease
from trainer.ledger import Kind, Line, Position, Positions, TopicIdentity, step_seed
from trainer.ledger_file import LedgerFile
from trainer.ready import Prepared
from trainer.step import Verdict


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change within one process."""

    epoch: int
    topic: TopicIdentity
    seed: int
    schema_fingerprint: str
    config: dict[str, Any]


class Lineage:
    """The moving part of a checkpoint, tensors aside."""

    def __init__(
        self,
        identity: Identity,
        lease: Lease,
        ledger: LedgerFile,
        step: int,
        positions: Positions,
        account: Account,
        watermark_ms: int,
        recorded_skips: Collection[int],
    ) -> None:
        self.identity = identity
        self._lease = lease
        self.step = step
        self.account = account
        self.watermark_ms = watermark_ms
        self._ledger = ledger
        self._positions = positions
        self._recorded_skips = set(recorded_skips)
        self.repeated_steps = 0
        """Steps of this process that an earlier one had trained after the checkpoint."""

    def begin(self, prepared: Prepared) -> Line:
        """The next step's line; in the ledger before this returns, unless it stands there already."""
        step = self.step + 1
        line = Line(
            step=step,
            epoch=self.identity.epoch,
            kind=Kind.TRAINED,
            batches=prepared.entries,
            watermark_ms=prepared.watermark_ms,
            rng=step_seed(self.identity.seed, step),
        )
        if prepared.repeats:
            self.repeated_steps += 1
        else:
            self._ledger.append(line)
        return line

    def trained(self, line: Line) -> None:
        """The step has been given to the model: the lineage now stands behind it."""
        self.step = line.step
        self.watermark_ms = max(self.watermark_ms, line.watermark_ms)
        for entry in line.batches:
            self._positions[entry.partition] = Position(next_offset=entry.offset + 1, next_sequence=entry.sequence + 1)

    def settle(self, line: Line, prepared: Prepared, verdict: Verdict) -> None:
        """The verdict on the step is known: account for it; a step that changed nothing gets a line of its own."""
        account = self.account
        account.batches += len(line.batches)
        account.sessions += prepared.num_sessions
        account.wire_bytes += prepared.wire_bytes
        account.ids += prepared.tensors.counts.ids
        account.ids_expanded += prepared.tensors.counts.ids_expanded
        if verdict is Verdict.LEARNED:
            account.steps += 1
            account.samples += prepared.num_samples
            account.corrected += prepared.num_corrections
            return
        account.skipped_steps += 1
        account.skipped += prepared.num_samples
        account.skipped_corrections += prepared.num_corrections
        if line.step not in self._recorded_skips:
            self._ledger.append(msgspec.structs.replace(line, kind=Kind.SKIPPED, reason=verdict.name.lower()))

    def progress(self, created_ms: int) -> Progress:
        """Everything of a checkpoint but its tensors. The ledger is on the disk up to it before this returns."""
        self._ledger.sync()
        return Progress(
            step=self.step,
            epoch=self.identity.epoch,
            created_ms=created_ms,
            watermark_ms=self.watermark_ms,
            topic=self.identity.topic,
            positions=dict(self._positions),
            account=msgspec.structs.replace(self.account),
            seed=self.identity.seed,
            schema_fingerprint=self.identity.schema_fingerprint,
            config=self.identity.config,
        )

    def close(self) -> None:
        """Close the ledger and let the next trainer in."""
        self._ledger.close()
        self._lease.release()
