"""Where checkpoints go, how often, and how many are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from streams.errors import ConfigError
from streams.strict import STRICT


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointConfig:
    """One directory a model: its lease, its ledger and its checkpoints."""

    __pydantic_config__: ClassVar = STRICT

    directory: str = ".recd/model"
    """Directory of the lineage. One trainer at a time writes to it."""
    every_steps: int = 1000
    """A checkpoint is due after this many steps."""
    every_ms: int = 60_000
    """A checkpoint is due after this long, if anything was trained."""
    keep: int = 3
    """Checkpoints that are kept; older ones are removed."""
    shard_bytes: int = 268_435_456
    """Largest file; a larger tensor is split by rows."""
    background: bool = True
    """Write in a thread: a step then waits for the copy only. At most one checkpoint is in flight."""
    copy: Literal["whole", "touched"] = "whole"
    """What a step waits for at a save. whole: a copy of everything, which is gone when it is written. touched: only the
    rows that steps have used since the last save; the copy of all tables then stays in memory."""
    lease_wait_ms: int = 10_000
    """How long to wait for another trainer to leave the directory; then the start is refused."""
    drain_ms: int = 60_000
    """After SIGTERM or SIGINT: finish the step, save and leave within this, or leave without saving."""

    def __post_init__(self) -> None:
        for name in ("every_steps", "every_ms", "keep", "shard_bytes", "drain_ms"):
            if getattr(self, name) < 1:
                raise ConfigError(f"checkpoint.{name} must be at least 1")
        if self.lease_wait_ms < 0:
            raise ConfigError("checkpoint.lease_wait_ms must not be negative")
        if not self.directory:
            raise ConfigError("checkpoint.directory is empty; name a directory for the lineage")
