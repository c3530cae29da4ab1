"""Configuration of sessions and mini-batches.

All times are event time in milliseconds. A gap of exactly `gap_ms` splits: neighbours of one session are less
than `gap_ms` apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from streams.errors import ConfigError
from streams.strict import STRICT

JoinPolicy = Literal["wait", "wait-positive", "correct"]
Freshness = Literal["whole", "parts"]
SamplingUnit = Literal["sample", "session"]
ProfileStore = Literal["cuts", "redis"]

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
    """Samples in open sessions of a partition; beyond it the session longest silent leaves as a part. Under
    `join.policy = "correct"` those that have left and may still be corrected count too: beyond it the one that was
    shown first is forgotten."""
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
class JoinConfig:
    """How impressions get their labels from outcomes in messages of their own."""

    __pydantic_config__: ClassVar = STRICT

    window_ms: int = 1_800_000
    """An outcome counts if it happens within this time of its impression. No sample leaves before, so it is the least
    that a model lags behind; up to `session.gap_ms` it costs nothing, since sessions are waited for anyway."""
    policy: JoinPolicy = "wait"
    """wait: a sample waits for the whole window. wait-positive: it may leave as soon as every label is positive.
    correct: it leaves with its session, with the labels known by then, and is followed by a correction for each label
    that turns positive in its window."""
    early_ms: int = 0
    """An outcome may lie before its impression by this much, where the clocks of two services differ. Everything
    that depends on outcomes waits as much longer."""
    negative_rate: float = 1.0
    """Share of the samples without a positive label that is trained; which ones is decided by a hash of their ids."""
    negative_unit: SamplingUnit = "sample"
    """sample: each negative sample by itself. session: all negative samples of a session, or none."""

    def __post_init__(self) -> None:
        if not 1 <= self.window_ms <= LONGEST_MS // 4:
            raise ConfigError(f"join.window_ms must lie in 1..{LONGEST_MS // 4}")
        if not 0 <= self.early_ms <= self.window_ms:
            raise ConfigError("join.early_ms must lie in 0..join.window_ms")
        if not 0.0 < self.negative_rate <= 1.0:
            raise ConfigError("join.negative_rate must lie above 0 and be at most 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """How sessions are packed into mini-batches."""

    __pydantic_config__: ClassVar = STRICT

    samples: int = 256
    """A mini-batch holds whole sessions (or parts of capped ones) up to this many samples."""
    fresh_ms: int = 0
    """A sample that may leave waits at most this long, by the wall clock, for others to fill its mini-batch; the
    moment is written down as a clock mark, so that a replay makes the same batches. 0: until it is full, or until the
    partition falls silent."""
    target_fresh_ms: int = 0
    """In place of fresh_ms: what a sample that may leave takes at most, by the wall clock, until readers of the topic
    see it; with worker.max_ahead_bytes, until it is in a checkpoint of the trainer. How long it waits is then what the
    measured delay after leaving takes from this, at least a tenth of it, so that 19 of 20 transactions (checkpoints)
    bring nothing later. Each partition has its own. 0: fresh_ms counts."""
    fresh: Freshness = "whole"
    """What leaves when the time is over. whole: samples of sessions that are over. parts: ripe samples of open sessions
    too, as a part of their session, so that no long session makes the model wait."""
    max_bytes: int = 8 * 1024 * 1024
    """One that could become a larger message than this is split between sessions; at most topics.max_message_bytes.
    Counted before compression, so that a replay splits alike: far more than the message will have."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ConfigError("batch.samples must be at least 1")
        if not 0 <= self.fresh_ms <= LONGEST_MS:
            raise ConfigError(f"batch.fresh_ms must lie in 0..{LONGEST_MS}")
        if not 0 <= self.target_fresh_ms <= LONGEST_MS:
            raise ConfigError(f"batch.target_fresh_ms must lie in 0..{LONGEST_MS}")
        if self.fresh_ms and self.target_fresh_ms:
            raise ConfigError(
                "batch.fresh_ms and batch.target_fresh_ms are both set; keep the former for a wait that is always the "
                "same, or the latter for one that follows from what samples may take in all"
            )
        if self.fresh == "parts" and not (self.fresh_ms or self.target_fresh_ms):
            raise ConfigError(
                'batch.fresh = "parts" does nothing without batch.fresh_ms or batch.target_fresh_ms; say how long '
                "samples may wait"
            )
        if self.max_bytes < 64 * 1024:
            raise ConfigError("batch.max_bytes must be at least 65536")
        if self.samples > MOST_SAMPLES:
            raise ConfigError(f"batch.samples must be at most {MOST_SAMPLES}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfilesConfig:
    """Where what is remembered of users between their sessions is kept: the entries of their histories."""

    __pydantic_config__: ClassVar = STRICT

    store: ProfileStore = "cuts"
    """cuts: in the memory of the sessionizer and in every cut: nothing else has to run, and both grow with the number
    of users. redis: in a compacted topic and, as a working copy, in Redis: memory and cuts are bounded. What is in a
    mini-batch is the same."""
    max_users_in_memory: int = 200_000
    """With store = "redis": users whose profile a partition keeps at hand, so that it is not read again. Those with
    events that are held come on top."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_users_in_memory <= MOST_SAMPLES:
            raise ConfigError(f"profiles.max_users_in_memory must lie in 1..{MOST_SAMPLES}")

    @property
    def external(self) -> bool:
        """Whether profiles are kept outside the sessionizer."""
        return self.store != "cuts"
