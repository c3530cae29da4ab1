"""Configuration of sessions and mini-batches.

All times are event time in milliseconds. A gap of exactly `gap_ms` splits: neighbours of one session are less
than `gap_ms` apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from streams.errors import ConfigError
from streams.events.schema import EventSchema
from streams.strict import STRICT

LONGEST_MS: Final = 1 << 53
"""Far beyond any stream, and far from where sums of event times would leave int64."""
MOST_SAMPLES: Final = (1 << 31) - 1
"""Rows are numbered by int32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionConfig:
    """When a session ends, how long events may be late, and what is held at most."""

    __pydantic_config__: ClassVar = STRICT

    gap_ms: int = 1_800_000
    """Two events of a user this far apart, or farther, belong to different sessions."""
    lateness_ms: int = 300_000
    """The watermark of a partition is its latest event time minus this; an event behind it is late."""
    duplicate_horizon_ms: int = 3_600_000
    """Event ids are remembered until the watermark has passed their event by this."""
    max_samples: int = 256
    """A session is cut when it has this many samples; the parts are counted."""
    max_age_ms: int = 86_400_000
    """A session is cut when its first sample is this old."""
    max_held_samples: int = 1_000_000
    """Samples in open sessions of a partition; beyond it the session longest silent leaves as a part."""
    max_pending_events: int = 1_000_000
    """Events of a partition that wait for the watermark; beyond it the oldest are released early and time advances."""

    def __post_init__(self) -> None:
        for name in (
            "gap_ms",
            "duplicate_horizon_ms",
            "max_samples",
            "max_age_ms",
            "max_held_samples",
            "max_pending_events",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"session.{name} must be at least 1")
            most = LONGEST_MS if name.endswith("_ms") else MOST_SAMPLES
            if getattr(self, name) > most:
                raise ConfigError(f"session.{name} must be at most {most}")
        if not 0 <= self.lateness_ms <= LONGEST_MS:
            raise ConfigError(f"session.lateness_ms must lie in 0..{LONGEST_MS}")
        if self.max_samples > self.max_held_samples:
            raise ConfigError("session.max_samples exceeds session.max_held_samples; raise the latter")


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """How sessions are packed into mini-batches."""

    __pydantic_config__: ClassVar = STRICT

    samples: int = 256
    """A mini-batch holds whole sessions (or parts of capped ones) up to this many samples."""
    max_bytes: int = 8 * 1024 * 1024
    """One that could become a larger message than this is split between sessions; at most topics.max_message_bytes.
    Counted before compression, so that a replay splits alike: far more than the message will have."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ConfigError("batch.samples must be at least 1")
        if self.max_bytes < 64 * 1024:
            raise ConfigError("batch.max_bytes must be at least 65536")
        if self.samples > MOST_SAMPLES:
            raise ConfigError(f"batch.samples must be at most {MOST_SAMPLES}")


def refuse_outcomes(schema: EventSchema) -> None:
    """Raise ConfigError for events that this version cannot make samples of."""
    roles = schema.roles
    if "outcome" in roles.kinds.values() or (roles.kind is None and roles.default_kind == "outcome"):
        raise ConfigError(
            "event.kinds: outcomes in messages of their own are not joined yet; send them inside the event (kind "
            "'labelled') or filter them out"
        )
