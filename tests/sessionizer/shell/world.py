"""A small world for the sessionizer's shell: a schema, events that arrive out of order, and what should come of them.

Owns the inputs and the reference: one pass of the real decoder and core over a partition's records, never stopped.
Never talks to Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sessionizer.config import BatchConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import EmitBatch
from streams.clock_mark import ClockMark, MarkKind
from streams.events.decode import EventDecoder
from streams.events.roles import Roles
from streams.events.schema import EventSchema, History, Label, SparseFeature
from streams.minibatch import MiniBatch

START_MS = 1_700_000_000_000
SCHEMA = EventSchema(
    roles=Roles(event_id=("id",), user="user", item="item", time="ts"),
    labels=(Label(name="liked", field="rating", rule="ge", threshold=4),),
    sparse=(SparseFeature(name="item_id", field="item", table="items"),),
    histories=(History(name="liked_items", table="items", last=20, label="liked"),),
)
SESSIONS = SessionConfig(gap_ms=20_000, lateness_ms=2_000, duplicate_horizon_ms=60_000, max_samples=16)
BATCHES = BatchConfig(samples=32)


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One record of a partition, spelled as aiokafka does."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    topic: str = "interactions"
    partition: int = 0
    timestamp: int = -1


def events(count: int, seed: int, *, users: int = 40, broken: int = 97) -> list[tuple[bytes, bytes]]:
    """Key and value of `count` records: up to a second out of order, every `broken`-th one not JSON."""
    rng = np.random.default_rng(seed)
    times = START_MS + np.arange(count) * 250 + rng.integers(-1_000, 1_000, count)
    user = rng.zipf(1.6, count) % users
    found = []
    for i in range(count):
        event = {
            "id": f"{seed}-{i}",
            "user": int(user[i]),
            "item": int(rng.integers(1, 500)),
            "ts": int(times[i]),
            "rating": int(rng.integers(1, 6)),
        }
        value = b'{"id": ' if i % broken == broken - 1 else json.dumps(event).encode()
        found.append((str(user[i]).encode(), value))
    return found


def records(pairs: Sequence[tuple[bytes, bytes]], partition: int = 0) -> list[MemoryRecord]:
    """The records of a partition that holds nothing else."""
    return [MemoryRecord(offset=i, value=value, key=key, partition=partition) for i, (key, value) in enumerate(pairs)]


def reference(found: Sequence[MemoryRecord], partition: int = 0) -> tuple[list[MiniBatch], PartitionCore]:
    """The batches of an undisturbed run over the whole partition with an end mark behind it, and its core."""
    core = PartitionCore(SCHEMA, SESSIONS, BATCHES, partition)
    effects = []
    if found:
        decoded = EventDecoder(SCHEMA).decode(found)
        effects += core.feed(decoded.events, rejected=len(decoded.rejected), next_offset=decoded.next_offset)
    effects += core.apply(ClockMark(partition=partition, after_offset=core.next_offset, kind=MarkKind.END))
    return [effect.batch for effect in effects if isinstance(effect, EmitBatch)], core


def identities(batches: Sequence[MiniBatch]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Sequence, content and lineage of each batch: what must agree."""
    return [(b.sequence, b.content_hash, tuple(b.lineage.offset.tolist())) for b in batches]
