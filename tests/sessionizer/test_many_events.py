"""A long stream with disorder, copies and garbage, as bytes: the core against an oracle of dictionaries and sorts.

Of 1,000,000 events 5 % come out of order (a sixth of these too late), 1 % come twice (half of these changed), 0.1 %
are no events. `make audit` runs them all, `make test` a part.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import xxhash

from sessionizer.account import Account
from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.core import PartitionCore
from streams.clock_mark import ClockMark, MarkKind
from streams.events.decode import EventDecoder
from streams.events.roles import Roles
from streams.events.schema import EventSchema, FeatureGroup, History, Label, SparseFeature
from streams.minibatch import MiniBatch
from tests.sessionizer.events import batches_of
from tests.streams.events.records import Rec

START_MS = 1_700_000_000_000
SESSIONS = SessionConfig(gap_ms=60_000, lateness_ms=30_000, duplicate_horizon_ms=600_000, max_samples=100_000)
JOINS = JoinConfig(window_ms=90_000)
BATCH = 1024
SCHEMA = EventSchema(
    roles=Roles(
        event_id=("id",), user="user", item="item", time="at", kind="type", impression="of",
        kinds={"view": "impression", "click": "outcome", "rating": "labelled"},
    ),
    labels=(Label(name="liked", field="liked"),),
    sparse=(SparseFeature(name="item", field="item", table="items"),),
    histories=(History(name="liked_items", table="items", last=20, label="liked"),),
    groups=(FeatureGroup(name="history", features=("liked_items",)),),
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """One event at its offset."""

    offset: int
    id: int
    user: int
    item: int
    at: int
    kind: str
    of: int
    liked: int
    content: int

    @property
    def order(self) -> tuple[int, int]:
        """Canonical."""
        return self.at, self.id


def stream(events: int, seed: int) -> list[bytes]:
    """Values of records in the order of their offsets."""
    draw = random.Random(seed)
    found: list[tuple[float, bytes]] = []
    views: list[tuple[int, int]] = []
    for number in range(events):
        at = START_MS + 20 * number
        # Some 200 users are active at a time, so that sessions of about 20 samples end all the time.
        user = (number // 3000 * 150 + int(200 * draw.random())) % 20_000
        event: dict[str, object] = {"id": number, "user": user, "item": draw.randrange(500), "at": at}
        kind = draw.random()
        if kind < 0.4:
            event |= {"type": "view"}
            views.append((number, user))
        elif kind < 0.7 and views:
            of, user = views[max(0, len(views) - 1 - int(draw.expovariate(1 / 1500)))]
            event = {"id": number, "user": user, "at": at, "type": "click", "of": of, "liked": draw.randrange(2)}
        else:
            event |= {"type": "rating", "liked": draw.randrange(2)}
        arrives = number + (draw.expovariate(1 / 800) if draw.random() < 0.05 else 0.0)
        found.append((arrives, json.dumps(event).encode()))
        if draw.random() < 0.01:
            changed = event | {"at": at + draw.choice([0, 0, -5, 5])}
            found.append((arrives + draw.expovariate(1 / 300), json.dumps(changed).encode()))
        if draw.random() < 0.001:
            found.append((arrives, b'{"id": ' + bytes([draw.randrange(256)])))
    found.sort(key=lambda one: one[0])
    return [value for _, value in found]


@dataclass
class Truth:
    """What must come out."""

    batches: list[list[int]] = field(default_factory=list)
    labels: dict[int, float] = field(default_factory=dict)
    history: dict[int, list[int]] = field(default_factory=dict)
    late: int = 0
    duplicates: int = 0
    garbage: int = 0


def oracle(values: list[bytes]) -> Truth:
    """By dictionaries and sorts over the whole stream."""
    truth = Truth()
    events = sorted(accepted(values, truth), key=lambda event: event.order)
    samples = [event for event in events if event.kind != "click"]
    views = {event.id: event for event in samples if event.kind == "view"}
    liked_at: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    truth.labels = {event.offset: float(event.liked) for event in samples}
    for rank, event in enumerate(events):
        if event.kind == "rating" and event.liked:
            liked_at[event.user].append((event.at, rank, event.item))
        view = views.get(event.of) if event.kind == "click" else None
        if view is not None and event.liked and 0 <= event.at - view.at < 2 * JOINS.window_ms:
            liked_at[event.user].append((event.at, len(events) + rank, view.item))
            if event.at - view.at < JOINS.window_ms:
                truth.labels[view.offset] = 1.0
    for entries in liked_at.values():
        entries.sort()
    for event in samples:
        before = bisect_left(liked_at[event.user], (event.at,))
        truth.history[event.offset] = [item for _, _, item in liked_at[event.user][max(0, before - 20) : before]]
    parts = sorted(sessions(samples))
    batch: list[int] = []
    for *_, offsets in parts:
        if batch and len(batch) + len(offsets) > BATCH:
            truth.batches.append(batch)
            batch = []
        batch = batch + offsets
        assert len(batch) <= BATCH, "a session larger than a batch: change the law"
    truth.batches += [batch] if batch else []
    return truth


def accepted(values: list[bytes], truth: Truth) -> Iterator[Event]:
    """The copy that counts of every event that was in time."""
    kept: dict[int, Event] = {}
    gone: list[Event] = []
    latest = 0
    for offset, value in enumerate(values):
        try:
            raw = json.loads(value)
        except ValueError:
            truth.garbage += 1
            continue
        known = kept.get(raw["id"])
        event = Event(
            offset, raw["id"], raw["user"], raw.get("item", -1), raw["at"], raw["type"], raw.get("of", -1),
            raw.get("liked", 0), xxhash.xxh3_64_intdigest(value),
        )  # fmt: skip
        watermark = latest - SESSIONS.lateness_ms
        if known is not None and known.at < watermark and known.at + SESSIONS.duplicate_horizon_ms < watermark:
            gone.append(known)
            known = None
        if known is not None:
            truth.duplicates += 1
            if (
                known.at >= watermark
                and event.at >= watermark
                and (event.at, event.content) < (known.at, known.content)
            ):
                kept[event.id] = event
        elif event.at < watermark:
            truth.late += 1
        else:
            kept[event.id] = event
        latest = max(latest, event.at)
    yield from gone
    yield from kept.values()


def sessions(samples: list[Event]) -> Iterator[tuple[int, int, tuple[int, int], list[int]]]:
    """(ready, user, first event, offsets) of every session."""
    of_user: dict[int, list[Event]] = defaultdict(list)
    for event in samples:
        of_user[event.user].append(event)
    for user, theirs in of_user.items():
        starts = [i for i in range(len(theirs)) if i == 0 or theirs[i].at - theirs[i - 1].at >= SESSIONS.gap_ms]
        for start, end in zip(starts, [*starts[1:], len(theirs)], strict=True):
            session = theirs[start:end]
            ripe = [event.at + JOINS.window_ms if event.kind == "view" else event.at for event in session]
            yield max(session[-1].at + SESSIONS.gap_ms, *ripe), user, session[0].order, [e.offset for e in session]


def run(values: list[bytes], seed: int) -> tuple[list[MiniBatch], Account]:
    """Through the decoder and the core in polls of random sizes, with a restart from a cut now and then."""
    draw = random.Random(seed)
    decoder, batches = EventDecoder(SCHEMA), BatchConfig(samples=BATCH)
    core = PartitionCore(SCHEMA, SESSIONS, batches, 0, JOINS)
    found: list[MiniBatch] = []
    start = 0
    while start < len(values):
        records = [
            Rec(value=value, offset=offset, headers=())
            for offset, value in enumerate(values[start : start + draw.randint(1, 4000)], start)
        ]
        decoded = decoder.decode(records)
        found += batches_of(core.feed(decoded.events, rejected=len(decoded.rejected), next_offset=decoded.next_offset))
        start += len(records)
        if draw.random() < 0.02:
            core = PartitionCore.restore(SCHEMA, SESSIONS, batches, core.cut(), JOINS)
    found += batches_of(core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.END)))
    assert core.held == 0
    return found, core.account


def compare(events: int, seed: int) -> Account:
    """Run both; returns the account for what the caller knows of it."""
    values = stream(events, seed)
    truth = oracle(values)
    batches, account = run(values, seed)
    assert [batch.lineage.offset.tolist() for batch in batches] == truth.batches
    for batch in batches:
        offsets = batch.lineage.offset.tolist()
        assert batch.labels[:, 0].tolist() == [truth.labels[offset] for offset in offsets]
        (group,) = [group for group in batch.groups if group.group == "history"]
        assert group.expand()["liked_items"].to_lists() == [truth.history[offset] for offset in offsets]
    assert (account.events, account.dead_lettered) == (len(values), truth.garbage)
    assert (account.late, account.duplicates) == (truth.late, truth.duplicates)
    assert np.all([account.joined, account.missed, account.late, account.duplicates, account.dead_lettered])
    return account


def test_a_part_of_the_stream_equals_the_oracle() -> None:
    compare(40_000, seed=1)


@pytest.mark.audit
def test_a_million_events_equal_the_oracle() -> None:
    account = compare(1_000_000, seed=2)
    assert account.events > 1_000_000
