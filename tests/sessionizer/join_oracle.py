"""Labels, readiness and histories where outcomes are messages of their own, stated without any state.

Every rule is a sentence about the accepted events as a whole: nothing here is processed in order. It knows no cap on
held samples, which is the one thing that depends on an order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sessionizer.config import JoinConfig, SessionConfig
from streams.events.schema import EventKind
from tests.sessionizer.oracle import Ev, Truth, accept, pack, sessions


@dataclass
class Joined:
    """What must come out."""

    batches: list[list[int]] = field(default_factory=list)
    labels: dict[int, list[float]] = field(default_factory=dict)
    history: dict[int, list[int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("joined", "settled", "missed", "orphans"), 0))


def joined(
    events: list[Ev], config: SessionConfig, joins: JoinConfig, batch_samples: int, last: int, watch: int | None
) -> Joined:
    """One epoch that ends with an end mark. The second label, unless it is None, needs a sum of `watch` seconds."""
    return joined_of(events, accept(events, config, Truth()), config, joins, (batch_samples, last, watch))


def joined_of_two(
    inputs: tuple[list[Ev], list[Ev]],
    silences: tuple[list[tuple[int, int]], list[tuple[int, int]]],
    config: SessionConfig,
    joins: JoinConfig,
    sizes: tuple[int, int, int | None],
) -> Joined:
    """The same with outcomes in a topic of their own: each input is judged alone, then both are one set of events.

    An event of the outcomes' topic has the number of its place there plus that of all interactions.
    """
    judged = [accept(events, config, Truth(), quiet) for events, quiet in zip(inputs, silences, strict=True)]
    accepted = judged[0] + [len(inputs[0]) + o for o in judged[1]]
    return joined_of(inputs[0] + inputs[1], accepted, config, joins, sizes)


def joined_of(
    events: list[Ev], accepted: list[int], config: SessionConfig, joins: JoinConfig, sizes: tuple[int, int, int | None]
) -> Joined:
    """What must come of accepted events; `sizes` are samples of a batch, length of a history, seconds of a label."""
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
    ready = {s: max(part.close_ms, *(ripe[o] for o in part.offsets)) for part in parts for s in part.offsets}
    for s in samples:
        truth.labels[s] = labels_of(events, s, said[s], watch)
        truth.history[s] = history_of(events, s, samples, met, joins)[-last:]
    for o in outcomes:
        truth.counts[what_became_of(events, o, met[o], ready, joins)] += 1
    parts.sort(key=lambda p: (ready[p.offsets[0]], p.user, events[p.offsets[0]].time, events[p.offsets[0]].id))
    truth.batches = pack([part.offsets for part in parts], batch_samples)
    return truth


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
) -> list[int]:
    """Items that the user liked before the sample, oldest first: (when it could be known, samples first, order)."""
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
    return [item for at, _, _, of, item in sorted(entries) if of == user and at < events[s].time]


def what_became_of(events: list[Ev], o: int, met: int | None, ready: dict[int, int], joins: JoinConfig) -> str:
    """Of one outcome."""
    if met is None:
        return "orphans"
    if events[o].time - events[met].time >= joins.window_ms:
        return "missed"
    return "settled" if ready[met] <= events[o].time + joins.early_ms else "joined"
