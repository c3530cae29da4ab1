"""A sessionizer that anyone can check by reading: lists, loops and global sorts over plain tuples.

It states semantics.md's rules with no thought for speed. The real core must agree with it exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sessionizer.config import SessionConfig
from streams.events.schema import EventKind

NEVER = -(10**18)
SHARE_OF_ALL = 65_536


class Ev(NamedTuple):
    """One event in arrival order; its offset is its place in the list."""

    time: int
    id: int
    user: int
    item: int = 0
    label: int = 0
    """What it says of the first label; -1: nothing."""
    hash: int = 0
    kind: int = EventKind.LABELLED
    of: int = 0
    """Event id of the impression that an outcome belongs to."""
    seconds: int = -1
    """What it says of the second label; -1: nothing."""


@dataclass
class Part:
    """A session, or a part of a capped one."""

    close_ms: int
    user: int
    cut: bool
    offsets: list[int]


@dataclass
class Truth:
    """What must come out."""

    late: list[int] = field(default_factory=list)
    duplicates: int = 0
    watermarks: list[int] = field(default_factory=lambda: [NEVER])
    """Before the first event, and after each one."""
    parts: list[Part] = field(default_factory=list)
    shed: list[int] = field(default_factory=list)
    batches: list[list[int]] = field(default_factory=list)
    history: dict[int, list[int]] = field(default_factory=dict)
    seen: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    """How many entries of the history lie before the sample, and how many milliseconds before it the newest one."""


def brute_force(
    events: list[Ev], config: SessionConfig, batch_samples: int, last: int, sheds: Sequence[tuple[int, int]] = ()
) -> Truth:
    """Everything about one epoch that ends with an end mark.

    `sheds`: before which event, or after the last, a share of the sessions began to be shed.
    """
    truth = Truth()
    accepted = accept(events, config, truth)
    order = sorted(accepted, key=lambda o: (events[o].time, events[o].id))
    truth.parts = sessions(order, events, config)
    truth.parts.sort(key=lambda p: (p.close_ms, p.user, events[p.offsets[0]].time, events[p.offsets[0]].id))
    session_of = session_ids(events, order, config.gap_ms)
    shares = [(truth.watermarks[at], share) for at, share in sheds]
    shed = [part for part in truth.parts if is_shed(session_of[part.offsets[0]], part.close_ms, shares)]
    truth.shed = [offset for part in shed for offset in part.offsets]
    truth.parts = [part for part in truth.parts if part not in shed]
    truth.batches = pack([part.offsets for part in truth.parts], batch_samples)
    for offset in order:
        event = events[offset]
        liked = [o for o in order if events[o].user == event.user and events[o].label and events[o].time < event.time]
        truth.history[offset] = [events[o].item for o in liked][-last:]
        truth.seen[offset] = len(liked), event.time - events[liked[-1]].time if liked else None
    return truth


def accept(
    events: list[Ev], config: SessionConfig, truth: Truth, silences: Sequence[tuple[int, int]] = ()
) -> list[int]:
    """Of one input. `silences`: before which event, or after the last, its time reached at least so much by a mark."""
    kept: dict[int, int] = {}  # event id -> offset of the copy that counts
    waiting: set[int] = set()
    latest, floor = NEVER, NEVER
    accepted: list[int] = []
    for offset, event in enumerate(events):
        floor = max([floor, *(to for at, to in silences if at == offset)])
        for done in [o for o in waiting if events[o].time < floor]:
            waiting.remove(done)
            accepted.append(done)
        watermark = max(latest - config.lateness_ms, floor)
        first = kept.get(event.id)
        if first is not None and first not in waiting and events[first].time + config.duplicate_horizon_ms < watermark:
            first = None
        if first is not None:
            truth.duplicates += 1
            smaller = (event.time, event.hash) < (events[first].time, events[first].hash)
            if first in waiting and smaller and event.time >= watermark:
                waiting.remove(first)
                waiting.add(offset)
                kept[event.id] = offset
        elif event.time < watermark:
            truth.late.append(offset)
        else:
            waiting.add(offset)
            kept[event.id] = offset
        latest = max(latest, event.time)
        if sum(events[o].time >= latest - config.lateness_ms for o in waiting) > config.max_pending_events:
            floor = max(
                floor, min(events[o].time for o in waiting if events[o].time >= latest - config.lateness_ms) + 1
            )
        truth.watermarks.append(max(latest - config.lateness_ms, floor))
        for done in [o for o in waiting if events[o].time < truth.watermarks[-1]]:
            waiting.remove(done)
            accepted.append(done)
    return accepted + list(waiting)


def is_shed(session_id: int, ready_ms: int, shares: list[tuple[int, int]]) -> bool:
    """Whether a session that may leave at `ready_ms` is shed. `shares`: (watermark where a mark stands, its share).

    The last mark that stands where event time had not reached `ready_ms` yet decides.
    """
    in_force = [share for watermark_ms, share in shares if watermark_ms < ready_ms]
    place = scrambled(session_id ^ 0x8E1F_6A3D_C957_0B42, plus=0x9E37_79B9_7F4A_7C15) * SHARE_OF_ALL >> 64
    return place < (in_force[-1] if in_force else 0)


def session_ids(events: list[Ev], order: list[int], gap_ms: int) -> dict[int, int]:
    """Of each sample: its user and the first sample of its session, hashed. `order`: samples in canonical order."""
    found: dict[int, int] = {}
    before: dict[int, int] = {}  # user -> the sample before
    for offset in order:
        event = events[offset]
        last = before.get(event.user)
        if last is not None and event.time - events[last].time < gap_ms:
            found[offset] = found[last]
        else:
            found[offset] = scrambled(scrambled(event.user) ^ event.id)
        before[event.user] = offset
    return found


def scrambled(x: int, *, plus: int = 0) -> int:
    """The finalizer of SplitMix64."""
    bits = (1 << 64) - 1
    x = (x + plus) & bits
    x = ((x ^ (x >> 30)) * 0xBF58_476D_1CE4_E5B9) & bits
    x = ((x ^ (x >> 27)) * 0x94D0_49BB_1331_11EB) & bits
    return x ^ (x >> 31)


def sessions(order: list[int], events: list[Ev], config: SessionConfig) -> list[Part]:
    parts: list[Part] = []
    open_parts: dict[int, list[int]] = {}

    def close(user: int, close_ms: int, *, cut: bool) -> None:
        parts.append(Part(close_ms, user, cut, open_parts.pop(user)))

    for offset in order:
        event = events[offset]
        for user in [u for u, part in open_parts.items() if events[part[-1]].time + config.gap_ms <= event.time]:
            close(user, events[open_parts[user][-1]].time + config.gap_ms, cut=False)
        part = open_parts.get(event.user, [])
        if part and (len(part) >= config.max_samples or event.time - events[part[0]].time >= config.max_age_ms):
            close(event.user, event.time + 1, cut=True)
        # Re-inserting moves the user to the end: the dict stays in order of last event.
        open_parts[event.user] = [*open_parts.pop(event.user, []), offset]
        if sum(map(len, open_parts.values())) > config.max_held_samples:
            close(next(iter(open_parts)), event.time + 1, cut=True)
    for user in list(open_parts):
        close(user, events[open_parts[user][-1]].time + config.gap_ms, cut=False)
    return parts


def pack(sessions: list[list[int]], batch_samples: int) -> list[list[int]]:
    batches: list[list[int]] = []
    current: list[int] = []
    for session in sessions:
        if current and len(current) + len(session) > batch_samples:
            batches.append(current)
            current = []
        current = current + session
        while len(current) > batch_samples:
            batches.append(current[:batch_samples])
            current = current[batch_samples:]
    return [*batches, current] if current else batches
