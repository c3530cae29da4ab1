"""One worker under more open sessions, longer ones and more partitions: what an event costs, and what a session holds.

Owns the two ends of each scenario. Histories are off and cuts are rare here: with longer sessions histories fill up,
which is payload, and a cut is bounded by itself (a twentieth of the time), while one more or less in so short a run
would hide everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaException, TopicPartition

from benchmarks.sessionizer import child, setup
from benchmarks.sessionizer.contest import Place
from benchmarks.sessionizer.core_alone import core_alone
from benchmarks.sessionizer.setup import Filled, fill
from benchmarks.sessionizer.stream import LATEST_CLICK_MS, Law
from benchmarks.sessionizer.worker import work
from benchmarks.turns import Result
from streams.kafka import client

WINDOW_MS: Final = LATEST_CLICK_MS + 1_000
LATENESS_MS: Final = 10_000
MOST: Final = 50_000_000
NEVER_MS: Final = 3_600_000
BEFORE_THE_END: Final = 0.97
"""The last events are not looked at: what the end mark closes is close behind them."""
LEAST_HELD_B: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatSizes:
    """The two ends of each scenario, and how much is measured there."""

    open_sessions: tuple[int, int] = (1_000, 1_000_000)
    session_events: int = 2
    """Impressions of a session while open ones are counted."""
    lengths: tuple[int, int] = (10, 100_000)
    at_once: int = 4
    """Users in a session at any time while lengths are compared."""
    partitions: tuple[int, ...] = (1, 4, 16, 64)
    measured: int = 600_000
    """Impressions."""
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """A worker at one moment."""

    cpu_s: float
    resident_bytes: int
    done: int
    """Events that are committed."""


def open_sessions(place: Place, sizes: FlatSizes) -> Iterator[Result]:
    """Time an event and memory with few open sessions and with many."""
    law = Law(active=100, length=sizes.session_events, users=MOST)
    spans = [num * law.length for num in sizes.open_sessions]
    more = [_more(gap_ms=span * law.step_ms) for span in spans]
    filled = [fill(place.kafka, f"open{span}", law, span + sizes.measured) for span in spans]
    starts = [span * one.num_events // one.num_views for span, one in zip(spans, filled, strict=True)]
    costs: list[list[float]] = [[], []]
    held: list[list[int]] = [[], []]
    for r in range(sizes.rounds):
        for end in (0, 1):
            seen = _watched(place, filled[end], f"r{r}", more[end])
            cost, resident = _between(seen, starts[end], filled[end].num_events)
            costs[end].append(cost)
            held[end].append(resident)
    extra = sizes.open_sessions[1] - sizes.open_sessions[0]
    each_b = (min(held[1]) - min(held[0])) / extra
    alone = [core_alone(law, num, sizes.measured) for num in sizes.open_sessions]
    payload_b = alone[1].payload_bytes * law.length
    context = {
        "open_sessions": list(sizes.open_sessions),
        "impressions_of_a_session": law.length,
        "resident_bytes_a_session": round(each_b),
        "of_it_payload": round(payload_b),
        "held_to": LEAST_HELD_B,
        "core_alone_us": [round(each.event_us, 3) for each in alone],
        "core_alone_ratio": round(alone[1].event_us / alone[0].event_us, 3),
        "partitions": filled[0].partitions,
    }
    yield _line("sessionizer.flat.open_sessions", costs, f"{sizes.open_sessions[0]} open sessions", context)


def session_length(place: Place, sizes: FlatSizes) -> Iterator[Result]:
    """Time an event with short sessions and with long ones, whole runs."""
    views = 2 * sizes.at_once * sizes.lengths[1]
    laws = [Law(active=sizes.at_once, length=length, users=MOST) for length in sizes.lengths]
    more = _more(gap_ms=60_000, max_samples=10 * sizes.lengths[1])
    whole = [fill(place.kafka, f"length{law.length}", law, views) for law in laws]
    short = [fill(place.kafka, f"length{law.length}-short", law, 4_000) for law in laws]
    _warm(place, short[0])
    costs: list[list[float]] = [[], []]
    for r in range(sizes.rounds):
        for end in (0, 1):
            costs[end].append(_slope(place, short[end], whole[end], f"r{r}", more)[0])
    context = {"impressions_of_a_session": list(sizes.lengths), "sessions_at_once": sizes.at_once}
    yield _line("sessionizer.flat.session_length", costs, f"sessions of {sizes.lengths[0]}", context)


def partitions(place: Place, sizes: FlatSizes) -> Iterator[Result]:
    """Time an event and memory of one worker with few partitions and with many, the same events in them."""
    law, costs, peaks = Law(), [], []
    _warm(place, fill(place.kafka, "parts-warm", law, 4_000))
    for num in sizes.partitions:
        short, whole = (
            fill(place.kafka, f"parts{num}-{views}", law, views, partitions=num) for views in (4_000, sizes.measured)
        )
        found = [_slope(place, short, whole, f"r{r}", _more()) for r in range(sizes.rounds)]
        costs.append([cost for cost, _ in found])
        peaks.append(min(peak for _, peak in found))
    each = np.diff(peaks) / np.diff(sizes.partitions)
    context = {
        "partitions": list(sizes.partitions),
        "us_an_event": [round(min(cost), 2) for cost in costs],
        "peak_mb": [round(peak / 1e6, 1) for peak in peaks],
        "mb_a_partition": (each / 1e6).round(2).tolist(),
    }
    ends = [costs[0], costs[-1]]
    yield _line("sessionizer.flat.partitions", ends, f"{sizes.partitions[0]} partition", context)


def _more(**session: int) -> dict[str, Any]:
    kept = {"lateness_ms": LATENESS_MS, "max_held_samples": MOST, "max_pending_events": MOST} | session
    return {
        "session": kept,
        "join": {"window_ms": WINDOW_MS},
        "worker": {"cut_every_ms": NEVER_MS},
        "histories": [],
    }


def _slope(place: Place, short: Filled, whole: Filled, name: str, more: dict[str, Any]) -> tuple[float, int]:
    """Microseconds an event, and the most memory."""
    used = []
    for filled in (short, whole):
        worked = work(filled, name, place.directory, place.core, **more)
        setup.dropped(worked.config)
        used.append(worked.used)
    return 1e6 * (used[1].cpu_s - used[0].cpu_s) / (whole.num_events - short.num_events), used[1].peak_bytes


def _warm(place: Place, filled: Filled) -> None:
    """A run that is not counted: it compiles what is not compiled yet."""
    setup.dropped(work(filled, "warm", place.directory, place.core, **_more()).config)


def _watched(place: Place, filled: Filled, name: str, more: dict[str, Any]) -> list[Seen]:
    """A run, looked at ten times a second."""
    group = f"{filled.topic}-{name}"
    observer = client.consumer(setup.plain(place.kafka), group=group)
    places = [TopicPartition(filled.topic, partition) for partition in range(filled.partitions)]
    seen: list[Seen] = []

    def look(pid: int) -> None:
        try:
            done = sum(max(0, one.offset) for one in observer.committed(places, 10))
        except KafkaException:
            return  # A group that nobody has joined yet has no coordinator.
        seen.append(Seen(child.cpu_s(pid), child.resident_bytes(pid), done))

    try:
        worked = work(filled, name, place.directory, place.core, look=look, **more)
    finally:
        observer.close()
    setup.dropped(worked.config)
    return seen


def _between(seen: list[Seen], start: int, end: int) -> tuple[float, int]:
    """Microseconds an event from event `start` nearly to the end, and the most memory there."""
    inside = [one for one in seen if start <= one.done <= BEFORE_THE_END * end]
    first, last = inside[0], inside[-1]
    if last.done - first.done < (end - start) / 3:
        raise RuntimeError(f"only {last.done - first.done} events of {end - start} could be watched; take more")
    return 1e6 * (last.cpu_s - first.cpu_s) / (last.done - first.done), max(one.resident_bytes for one in inside)


def _line(name: str, costs: list[list[float]], baseline: str, context: dict[str, Any]) -> Result:
    """The larger end over the smaller one; medians, since rounds are few."""
    ratios = np.asarray(costs[1]) / np.asarray(costs[0])
    value, base = (round(float(np.median(each)), 2) for each in (costs[1], costs[0]))
    each = {"each": np.round(costs[1], 2).tolist(), "baseline_each": np.round(costs[0], 2).tolist()}
    return {
        "id": name,
        "value": value,
        "unit": "µs of CPU an event",
        "baseline": baseline,
        "baseline_value": base,
        "ratio": round(float(np.median(ratios)), 3),
        "median_of": len(ratios),
        "spread": [round(float(ratios.min()), 3), round(float(ratios.max()), 3)],
        "context": context | each | {"clock": "CPU time", "spread": "least to greatest"},
    }


SCENARIOS: Final[tuple[Callable[[Place, FlatSizes], Iterator[Result]], ...]] = (
    session_length,
    open_sessions,
    partitions,
)
