"""The sessionizer's audit: a stream with everything in it, and what must come of it.

Owns the events (impressions, outcomes, labelled ones, late, doubled, orphaned, broken, from the future, tombstones)
and the undisturbed run: one pass of the real decoder and core over a partition and its clock marks, never stopped.
It shares no code with what it judges: no partition, no outlet, no journal, no `Marks`. Never talks to Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sessionizer.account import Account
from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import Effect, EmitBatch, EndReached
from streams.clock_mark import ClockMark, MarkKind
from streams.events.decode import EventDecoder
from streams.events.event import EventBatch
from streams.events.roles import Roles
from streams.events.schema import DenseFeature, EventSchema, History, Label, SparseFeature
from streams.minibatch import MiniBatch
from tests.sessionizer.shell.world import MemoryRecord

START_MS = 1_700_000_000_000
FUTURE_MS = 4_000_000_000_000
"""Later than any test runs."""
SCHEMA = EventSchema(
    roles=Roles(
        event_id=("id",),
        user="user",
        item="item",
        time="ts",
        kind="type",
        kinds={"view": "impression", "click": "outcome", "watch": "outcome", "like": "labelled", "skip": "labelled"},
        impression="of",
    ),
    labels=(
        Label(name="clicked", field="type", rule="in", values=("click", "like")),
        Label(name="watched", field="seconds", rule="ge", threshold=30, combine="sum"),
    ),
    sparse=(SparseFeature(name="item_id", field="item", table="items"),),
    dense=(DenseFeature(name="price", field="price", default=0.0),),
    histories=(
        History(name="clicked_items", table="items", last=20, label="clicked"),
        History(name="seen_items", table="items", last=5),
    ),
)
SESSIONS = SessionConfig(gap_ms=20_000, lateness_ms=2_000, duplicate_horizon_ms=60_000, max_samples=16)
JOIN = JoinConfig(window_ms=5_000)
CORRECTING = JoinConfig(window_ms=30_000, policy="correct")
"""Longer than the gap of a session, so that samples leave before their outcomes."""
BATCHES = BatchConfig(samples=32)

Pair = tuple[bytes, bytes | None]
_USERS = 40


def appended_ms(offset: int) -> int:
    """Time stamp of a record: the time of a tombstone."""
    return START_MS + offset * 250


def stream(count: int, seed: int) -> list[Pair]:
    """Key and value of `count` records, four a second of event time, up to a second out of order."""
    draw = np.random.default_rng(seed)
    made: list[Pair] = []
    views: list[dict[str, object]] = []
    for i in range(count):
        at = START_MS + i * 250 + int(draw.integers(-1_000, 1_000))
        user = int(draw.zipf(1.6)) % _USERS
        event: dict[str, object] = {"id": f"{seed}-{i}", "user": user, "ts": at}
        chance = draw.random()
        if chance < 0.03 and made:
            made.append(made[int(draw.integers(max(0, i - 60), i))])
            continue
        if chance < 0.04:
            made.append((str(user).encode(), b'{"id": '))
            continue
        if chance < 0.045:
            made.append((str(user).encode(), None))
            continue
        if chance < 0.38 and views:
            # Up to 8 s after their impression, whose window is 5 s; some refer to one that nobody has seen.
            of = views[-1 - int(draw.integers(min(18, len(views))))]
            event |= {
                "type": "click" if chance < 0.2 else "watch",
                "user": of["user"],
                "seconds": int(draw.integers(40)),
            }
            event["of"] = of["id"] if draw.random() < 0.95 else "nobody"
        else:
            event |= {
                "type": "view" if chance < 0.85 else "like" if chance < 0.93 else "skip",
                "item": int(draw.integers(1, 500)),
            }
            event["price"] = round(float(draw.random()), 3)
            if event["type"] == "view":
                views.append(event)
        if draw.random() < 0.02:
            event["ts"] = at - 30_000
        elif draw.random() < 0.004:
            event["ts"] = FUTURE_MS + i
        made.append((str(event["user"]).encode(), json.dumps(event).encode()))
    return made


@dataclass
class Outcome:
    """What a partition has to leave in Kafka, and its account."""

    batches: list[MiniBatch] = field(default_factory=list)
    ends: int = 0
    letters: list[tuple[int, str]] = field(default_factory=list)
    """Offset and reason of every dead letter, in order of the offsets."""
    account: Account = field(default_factory=Account)


def effective(marks: Sequence[ClockMark | None], last_offset: int) -> list[ClockMark]:
    """The marks that count, in the order in which they act: of the clock topic, by its offsets."""
    replaced = {mark.replaces for mark in marks if mark is not None}
    counting = [
        mark
        for place, mark in enumerate(marks)
        if mark is not None and place not in replaced and mark.after_offset <= last_offset
    ]
    ordered = sorted(counting, key=lambda mark: mark.after_offset)
    # Silence before an end mark of the same position belonged to the epoch that ended.
    ended: set[int] = set()
    acting: list[ClockMark] = []
    for mark in ordered:
        # A verdict on a record is not about silence: the record comes after the end.
        if mark.kind in {MarkKind.END, MarkKind.FUTURE, MarkKind.SHED} or mark.after_offset not in ended:
            acting.append(mark)
        if mark.kind is MarkKind.END:
            ended.add(mark.after_offset)
    return acting


def undisturbed(
    pairs: Sequence[Pair], marks: Sequence[ClockMark | None], partition: int, join: JoinConfig = JOIN
) -> Outcome:
    """One pass over all records, with every mark where it says."""
    records = [
        MemoryRecord(offset=i, value=value, key=key, partition=partition, timestamp=appended_ms(i))
        for i, (key, value) in enumerate(pairs)
    ]
    decoded = EventDecoder(SCHEMA).decode(records)
    acting = effective(marks, len(pairs))
    future = {mark.after_offset: mark.value_ms for mark in acting if mark.kind is MarkKind.FUTURE}
    rejected = {one.offset: one.reason.value for one in decoded.rejected}
    rejected |= dict.fromkeys(future, "future_time")
    events = decoded.events.take(np.flatnonzero(~np.isin(decoded.events.offset, list(future))))
    core = PartitionCore(SCHEMA, SESSIONS, BATCHES, partition, join)
    effects: list[Effect] = []
    for mark in acting:
        if mark.kind is not MarkKind.FUTURE:
            effects += _advance(core, events, rejected, mark.after_offset)
            effects += core.apply(mark)
    effects += _advance(core, events, rejected, len(pairs))
    return Outcome(
        batches=[effect.batch for effect in effects if isinstance(effect, EmitBatch)],
        ends=sum(isinstance(effect, EndReached) for effect in effects),
        letters=sorted(rejected.items()),
        account=core.account,
    )


def _advance(core: PartitionCore, events: EventBatch, rejected: Mapping[int, str], stop: int) -> list[Effect]:
    if stop == core.next_offset:
        return []
    low, high = np.searchsorted(events.offset, (core.next_offset, stop))
    bad = sum(core.next_offset <= offset < stop for offset in rejected)
    return core.feed(events.take(np.arange(low, high, dtype=np.int64)), rejected=bad, next_offset=stop)
