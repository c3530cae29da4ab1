"""How far a running demo is, read from the metrics endpoints of its two processes.

Owns: one reading of both endpoints as a few numbers, and the readings so far. A process that does not answer (it
starts, or was just killed) leaves its numbers as they were.
Never: decides when the demo is over; the processes do.
"""

from __future__ import annotations

import math
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from infra.clock import Clock
from streams.metrics import Name

TIMEOUT_S: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Both processes at one moment."""

    wall_ms: int = 0
    """Since the demo's first reading."""
    events: int = 0
    """Events the sessionizer has read."""
    lag_events: int = 0
    """Events in the topic that it has not read."""
    open_sessions: int = 0
    held: int = 0
    """Samples read but not yet emitted."""
    emitted: int = 0
    """Samples in emitted mini-batches."""
    trained: int = 0
    ne_window: float | None = None
    ne_lifetime: float | None = None
    factors: dict[str, float] = field(default_factory=dict)
    """Dedup factor of the last mini-batch, by group."""


class Progress:
    """Reads both endpoints again and again."""

    def __init__(self, clock: Clock, *, sessionizer: str, trainer: str) -> None:
        self._clock = clock
        self._urls = (sessionizer, trainer)
        self._start_ms: int | None = None
        self.readings: list[Reading] = [Reading()]

    def both_answer(self) -> bool:
        """Whether both processes serve metrics."""
        return all(samples_at(url) for url in self._urls)

    def read(self) -> Reading:
        """Ask both; a silent one keeps its last numbers."""
        last = self.readings[-1]
        self._start_ms = self._clock.monotonic_ms() if self._start_ms is None else self._start_ms
        session, train = (samples_at(url) for url in self._urls)
        now = replace(last, wall_ms=self._clock.monotonic_ms() - self._start_ms)
        if session:
            now = replace(
                now,
                events=int(total(session, "recd_events_total")),
                lag_events=int(total(session, "recd_fetch_lag_events")),
                open_sessions=int(total(session, "recd_open_sessions")),
                held=int(total(session, "recd_held_samples")),
                emitted=int(total(session, "recd_samples_total")),
                factors={s.labels["group"]: s.value for s in session if s.name == "recd_dedup_factor"},
            )
        if train:
            now = replace(
                now,
                trained=int(total(train, "recd_trained_samples_total")),
                ne_window=scoped(train, "recd_ne", "window"),
                ne_lifetime=scoped(train, "recd_ne", "lifetime"),
            )
        self.readings.append(now)
        return now

    def events_per_s(self, over_ms: int = 3_000) -> float:
        """Events read by the sessionizer lately."""
        now = self.readings[-1]
        before = next(reading for reading in self.readings if reading.wall_ms >= now.wall_ms - over_ms)
        return 1000 * max(0, now.events - before.events) / max(1, now.wall_ms - before.wall_ms)


def samples_at(url: str) -> list[Sample]:
    """All samples of an endpoint; empty if nobody answers there."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310  (always our own http://127.0.0.1)
            text = answer.read().decode()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return []
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def total(samples: Iterable[Sample], name: Name) -> float:
    """A metric summed over its labels."""
    return sum(sample.value for sample in samples if sample.name == name)


def scoped(samples: Iterable[Sample], name: Name, scope: str) -> float | None:
    """A progressive metric of the first task, None before there is one or while it is not defined."""
    found = next((s.value for s in samples if s.name == name and s.labels.get("scope") == scope), math.nan)
    return None if math.isnan(found) else found
