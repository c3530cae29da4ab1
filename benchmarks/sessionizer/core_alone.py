"""The core without Kafka: events as columns in, mini-batches out, under a number of open sessions.

Owns how it is fed: polls of 5,000 impressions of one partition; those until as many sessions are open as asked are not
measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.sessionizer import setup
from benchmarks.sessionizer.stream import FIRST_VIEW, I64, ITEMS, START_MS, Law, sessions_of
from infra.clock import Clock
from sessionizer.core import PartitionCore
from streams.events.event import EventBatch
from streams.events.schema import EventKind

POLL: Final = 5_000


@dataclass(frozen=True, slots=True)
class Alone:
    """What was measured."""

    event_us: float
    payload_bytes: float
    """Of one event, as the core holds it: its columns."""
    open_sessions: int


def core_alone(law: Law, num_open: int, measured: int) -> Alone:
    """CPU time of the core an impression, from when `num_open` sessions are open."""
    warm = num_open * law.length
    more = {
        "session": {"gap_ms": warm * law.step_ms, "lateness_ms": 0, "max_held_samples": 50_000_000},
        "join": {"window_ms": 61_000},
        "histories": [],
    }
    config = setup.configured("localhost:1", "none", law, more=more)
    core = PartitionCore(config.schema, config.session, config.batch, 0, config.join)
    clock, spent_ns, events = Clock(), 0, 0
    batch = _impressions(law, np.arange(1))
    for start in range(0, warm + measured, POLL):
        batch = _impressions(law, np.arange(start, start + POLL))
        begin = clock.process_ns()
        core.feed(batch, rejected=0, next_offset=start + POLL)
        if start >= warm:
            spent_ns += clock.process_ns() - begin
            events += len(batch)
    return Alone(spent_ns / 1000 / events, batch.nbytes / len(batch), core.num_open_sessions)


def _impressions(law: Law, view: I64) -> EventBatch:
    num = len(view)
    user, ids = sessions_of(law, view) % law.users, (FIRST_VIEW + view).astype(np.uint64)
    names = len(setup.IDS)
    return EventBatch(
        offset=view,
        event_time_ms=START_MS + view * law.step_ms,
        event_id=ids,
        content_hash=ids,
        user=user,
        item=view * 7919 % ITEMS,
        kind=np.full(num, EventKind.IMPRESSION, np.uint8),
        impression=ids,
        appended_ms=np.full(num, -1),
        labels=np.full((num, 1), np.nan, np.float32),
        dense=np.zeros((num, 1), np.float32),
        ids=np.stack([user, *(view * (31 + k) % 9_000 for k in range(names - 1))], axis=1),
        lists=(),
    )
