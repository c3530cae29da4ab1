"""How mini-batches are read, held and composed into steps. Nothing else; reading is `source`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streams.errors import ConfigError
from streams.strict import STRICT


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceConfig:
    """Bounds of what waits in memory, and how a step is put together."""

    __pydantic_config__: ClassVar = STRICT

    group: str = "recd-trainer"
    """Consumer group that offsets are committed to after a checkpoint. For observers only: nothing resumes from it."""
    queue_bytes: int = 268_435_456
    """Decoded mini-batches that wait, in bytes of the wire, shared evenly by the partitions. Full means pause."""
    queue_batches: int = 512
    """Decoded mini-batches that wait, shared evenly by the partitions. Full means pause."""
    fetch_batches: int = 64
    """Mini-batches taken from the client in one call."""
    poll_ms: int = 100
    """Longest wait of one call; a paused reader keeps calling at this rate."""
    merge_wait_ms: int = 100
    """How long a mini-batch waits for the other partitions, so that the smallest watermark trains first."""
    prefetch_steps: int = 2
    """Steps that are made into tensors ahead of the one that trains."""
    start_wait_ms: int = 60_000
    """How long the mini-batch topic may be missing at start; then the trainer stops."""

    def __post_init__(self) -> None:
        for name in ("queue_bytes", "queue_batches", "fetch_batches", "poll_ms", "prefetch_steps"):
            if getattr(self, name) < 1:
                raise ConfigError(f"source.{name} must be at least 1")
        for name in ("merge_wait_ms", "start_wait_ms"):
            if getattr(self, name) < 0:
                raise ConfigError(f"source.{name} must not be negative")
        if not self.group:
            raise ConfigError("source.group is empty; name the consumer group that shows the trainer's lag")
