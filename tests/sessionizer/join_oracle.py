"""Labels, readiness and histories where outcomes are messages of their own, stated without any state.

Every rule is a sentence about the accepted events as a whole: nothing here is processed in order. It knows no cap on
held samples, which is the one thing that depends on an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sessionizer.config import JoinConfig, SessionConfig
from streams.events.schema import EventKind
from streams.inputs import Position
from streams.stage import Stage
from tests.sessionizer.oracle import Ev, Part, Truth, accept, is_shed, pack, session_ids, sessions


class Correction(NamedTuple):
    """A copy of a sample, for the labels that turned at one moment."""

    ready_ms: int
    sample: int
    turned: tuple[int, ...]


@dataclass
class Joined:
    """What must come out."""

    batches: list[list[int]] = field(default_factory=list)
    shed: list[int] = field(default_factory=list)
    labels: dict[int, list[float]] = field(default_factory=dict)
    history: dict[int, list[int]] = field(default_factory=dict)
    seen: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    """How many entries of the history lie before the sample, and how many milliseconds before it the newest one."""
    stages: dict[int, Stage] = field(default_factory=dict)
    """How each sample leaves."""
    corrections: list[Correction] = field(default_factory=list)
    """In no order that matters."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("joined", "settled", "missed", "orphans"), 0))


def joined(
    events: list[Ev],
    config: SessionConfig,
    joins: JoinConfig,
    sizes: tuple[int, int, int | None],
    sheds: Sequence[tuple[int, int]] = (),
) -> Joined:
    """One epoch that ends with an end mark. `sheds`: before which event a share of the sessions began to be shed."""
    judged = Truth()
    accepted = accept(events, config, judged)
    return joined_of(events, accepted, config, joins, sizes, [(judged.watermarks[at], share) for at, share in sheds])


def joined_of_two(
    inputs: tuple[list[Ev], list[Ev]],
    silences: tuple[list[tuple[int, int]], list[tuple[int, int]]],
    config: SessionConfig,
    joins: JoinConfig,
    sizes: tuple[int, int, int | None],
    sheds: Sequence[tuple[Position, int]] = (),
) -> Joined:
    """The same with outcomes in a topic of their own: each input is judged alone, then both are one set of events.

    An event of the outcomes' topic has the number of its place there plus that of all interactions.
    """
    truths = (Truth(), Truth())
    judged = [accept(*each) for each in zip(inputs, (config, config), truths, silences, strict=True)]
    accepted = judged[0] + [len(inputs[0]) + o for o in judged[1]]
    shares = [
        (min(truth.watermarks[at] for truth, at in zip(truths, after, strict=True)), share) for after, share in sheds
    ]
    return joined_of(inputs[0] + inputs[1], accepted, config, joins, sizes, shares)


def joined_of(
    events: list[Ev],
    accepted: list[int],
    config: SessionConfig,
    joins: JoinConfig,
    sizes: tuple[int, int, int | None],
    shares: list[tuple[int, int]],
) -> Joined:
    """What must come of accepted events; `sizes` are samples of a batch, length of a history, seconds of a label.

    The second label, unless its seconds are None, needs a sum of so many.
    """
    truth, (batch_samples, last, watch) = Joined(), sizes
    order = sorted(accepted, key=lambda o: (events[o].time, events[o].id, o))
    samples = [o for o in order if events[o].kind != EventKind.OUTCOME]
    outcomes = [o for o in order if events[o].kind == EventKind.OUTCOME]
    met = {o: impression_of(events, events[o], samples, joins) for o in outcomes}
    parts = sessions(samples, events, config)
    said = {
        s: [o for o in outcomes if met[o] == s and events[o].time - events[s].time < joins.window_ms] for s in samples
    }
    hurry = joins.policy == "wait-positive" and watch is None  # A sum can always grow, so it is never settled early.
    ripe = {s: ripe_ms(events, s, said[s], joins, hurry=hurry) for s in samples}
    if joins.policy == "correct":
        ripe = {s: events[s].time for s in samples}
    ready = {s: max(part.close_ms, *(ripe[o] for o in part.offsets)) for part in parts for s in part.offsets}
    known = {s: ready[s] - part.cut for part in parts for s in part.offsets}
    session_of = session_ids(events, samples, config.gap_ms)
    shed = [part for part in parts if is_shed(session_of[part.offsets[0]], ready[part.offsets[0]], shares)]
    truth.shed = [s for part in shed for s in part.offsets]
    for s in [s for s in samples if s not in truth.shed]:
        truth.stages[s] = stage_of(events, s, known[s], joins)
        told = [o for o in said[s] if truth.stages[s] == Stage.SETTLED or events[o].time + joins.early_ms < known[s]]
        truth.labels[s] = labels_of(events, s, told, watch)
        truth.corrections += corrections_of(events, s, told, said[s], joins, watch)
        entries = history_of(events, s, samples, met, joins)
        truth.history[s] = [item for _, item in entries][-last:]
        truth.seen[s] = len(entries), events[s].time - entries[-1][0] if entries else None
    for o in outcomes:
        truth.counts[what_became_of(events, o, met[o], ready, joins)] += 1
    left = [part for part in parts if part not in shed]
    truth.batches = pack(in_order(left, events, ready, session_of, truth.corrections), batch_samples)
    return truth


def in_order(
    parts: list[Part],
    events: list[Ev],
    ready: dict[int, int],
    session_of: dict[int, int],
    corrections: list[Correction],
) -> list[list[int]]:
    """Offsets of what leaves together: parts, and corrections of one session that are ready at once."""

    def place(ready_ms: int, s: int, kind: int) -> tuple[int, ...]:
        return ready_ms, events[s].user, events[s].time, events[s].id, kind

    leaving = [(place(ready[part.offsets[0]], part.offsets[0], 0), part.offsets) for part in parts]
    leaving += [(place(each.ready_ms, each.sample, 1), [each.sample]) for each in corrections]
    found: list[list[int]] = []
    before: tuple[int, int] | None = None
    for (ready_ms, *_, kind), offsets in sorted(leaving):
        its = (ready_ms, session_of[offsets[0]]) if kind else None
        if its is not None and its == before:
            found[-1] += offsets
        else:
            found.append(list(offsets))
        before = its
    return found


def stage_of(events: list[Ev], s: int, known_ms: int, joins: JoinConfig) -> Stage:
    """Of a sample that leaves with what was known at some time: whether its window was over then."""
    if joins.policy != "correct" or events[s].kind == EventKind.LABELLED:
        return Stage.SETTLED
    return Stage.SETTLED if events[s].time + joins.window_ms + joins.early_ms <= known_ms else Stage.PROVISIONAL


def corrections_of(
    events: list[Ev], s: int, told: list[int], said: list[int], joins: JoinConfig, watch: int | None
) -> list[Correction]:
    """One for each moment after it left at which a label turned for the first time."""
    found: dict[int, tuple[int, ...]] = {}
    so_far, positive = list(told), labels_of(events, s, told, watch)
    for o in said[len(told) :]:
        so_far.append(o)
        labels = labels_of(events, s, so_far, watch)
        turned = tuple(k for k, label in enumerate(labels) if label and not positive[k])
        positive = [max(pair) for pair in zip(labels, positive, strict=True)]
        if turned:
            ready_ms = events[o].time + joins.early_ms + 1
            found[ready_ms] = (*found.get(ready_ms, ()), *turned)
    return [Correction(ready_ms, s, tuple(sorted(turned))) for ready_ms, turned in found.items()]


def impression_of(events: list[Ev], outcome: Ev, samples: list[int], joins: JoinConfig) -> int | None:
    """The latest impression with that id by the time of the outcome, if it is not too long ago."""
    of = [s for s in samples if events[s].kind == EventKind.IMPRESSION and events[s].id == outcome.of]
    seen = [s for s in of if events[s].time <= outcome.time + joins.early_ms]
    return seen[-1] if seen and outcome.time - events[seen[-1]].time < 2 * joins.window_ms else None


def ripe_ms(events: list[Ev], s: int, said: list[int], joins: JoinConfig, *, hurry: bool) -> int:
    """When nothing can change the labels of a sample any more."""
    if events[s].kind == EventKind.LABELLED:
        return events[s].time
    liked = [events[o].time + joins.early_ms + 1 for o in said if hurry and events[o].label == 1]
    return min([events[s].time + joins.window_ms + joins.early_ms, *liked])


def labels_of(events: list[Ev], s: int, said: list[int], watch: int | None) -> list[float]:
    """Of one sample."""
    telling = [s] if events[s].kind == EventKind.LABELLED else said
    seconds = sum(events[o].seconds for o in telling if events[o].seconds >= 0)
    liked = float(any(events[o].label == 1 for o in telling))
    return [liked] if watch is None else [liked, float(seconds >= watch)]


def history_of(
    events: list[Ev], s: int, samples: list[int], met: dict[int, int | None], joins: JoinConfig
) -> list[tuple[int, int]]:
    """Time and item of what the user liked before: in order of when it could be known, samples first, then place."""
    user, entries = events[s].user, []
    for place, o in enumerate(samples):
        if events[o].kind == EventKind.LABELLED and events[o].label == 1:
            entries.append((events[o].time, 0, place, events[o].user, events[o].item))
    for place, (o, impression) in enumerate(met.items()):
        if events[o].label != 1:
            continue
        item = events[o].item or (None if impression is None else events[impression].item)
        if item is not None:
            entries.append((events[o].time + joins.early_ms, 1, place, events[o].user, item))
    return [(at, item) for at, _, _, of, item in sorted(entries) if of == user and at < events[s].time]


def what_became_of(events: list[Ev], o: int, met: int | None, ready: dict[int, int], joins: JoinConfig) -> str:
    """Of one outcome."""
    if met is None:
        return "orphans"
    if events[o].time - events[met].time >= joins.window_ms:
        return "missed"
    if joins.policy == "correct":
        return "joined"
    return "settled" if ready[met] <= events[o].time + joins.early_ms else "joined"
