"""Points of the sessionizer's audit: where and when a worker dies or partitions move, drawn from a seed.

Owns the plan of a round and carrying it out. A death counts only if the process died by its own crash site or by our
kill while records were not finished for good; a move only if partitions were given out anew after it began with
records unfinished.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from tests.fault.audit_round import Round
from tests.fault.crash_sites import AT_COMMIT, AT_MARKS, SITES

INSTANT: Final = "instant"
MOVES: Final = ("join", "leave", "freeze", "death")
VICTIM: Final = "w0"


@dataclass(frozen=True, kw_only=True)
class Point:
    """One planned event."""

    what: str
    """A site of `crash_sites`, `instant`, or one of MOVES."""
    nth: int = 1
    """Sites: the passing that kills."""
    wait_ms: int = 0
    """Instants: how long after something became visible."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A point that was carried out."""

    point: Point
    in_flight: int
    """Records that were produced and not finished for good."""
    happened: bool

    @property
    def counts(self) -> bool:
        return self.happened and self.in_flight > 0

    def told(self) -> dict[str, object]:
        return asdict(self.point) | {"in_flight": self.in_flight, "counts": self.counts}


def site_point(site: str, draw: np.random.Generator) -> Point:
    """A death at a site, at one of its first passings."""
    most = 3 if site in AT_COMMIT else 2 if site in AT_MARKS and site != "end sent" else 1
    return Point(what=site, nth=int(draw.integers(1, most + 1)))


def instant_point(draw: np.random.Generator) -> Point:
    """A death at any time."""
    return Point(what=INSTANT, wait_ms=int(draw.integers(0, 400)))


def deaths(number: int, seed: int, *, sites: int, instants: int) -> list[Point]:
    """The points of round `number`: over the rounds every site has its turn, in an order of the seed's."""
    order = np.random.default_rng(seed).permutation(len(SITES))
    draw = np.random.default_rng((seed, number))
    chosen = [SITES[order[(number * sites + i) % len(SITES)]] for i in range(sites)]
    points = [*(site_point(site, draw) for site in chosen), *(instant_point(draw) for _ in range(instants))]
    return [points[i] for i in draw.permutation(len(points))]


def die(attack: Round, points: Sequence[Point]) -> list[Hit]:
    """One worker dies at every point and comes back; the others of its group go on."""
    return [_die(attack, point) for point in points]


def _die(attack: Round, point: Point) -> Hit:
    attack.produce()
    if point.what in AT_MARKS:
        attack.end_epochs()
    if point.what != INSTANT:
        happened = attack.dies(attack.start(VICTIM, crash=(point.what, point.nth)))
    else:
        worker = attack.start(VICTIM)
        happened = attack.wait_until_moving()
        attack.place.clock.sleep(point.wait_ms)
        happened = happened and worker.alive
        worker.kill()
    attack.workers[VICTIM].kill()
    return Hit(point=point, in_flight=attack.unfinished, happened=happened)


def move(attack: Round, moves: Sequence[str]) -> list[Hit]:
    """Partitions move between workers without names of their own: at first `a` and `b`."""
    acts: dict[str, Callable[[Round], bool]] = {"join": _join, "leave": _leave, "freeze": _freeze, "death": _death}
    attack.produce()
    for name in ("a", "b"):
        assert _begin(attack, name), attack.logs()
    hits = []
    for what in moves:
        attack.produce()
        in_flight = attack.unfinished
        hits.append(Hit(point=Point(what=what), in_flight=in_flight, happened=acts[what](attack)))
    return hits


def _join(attack: Round) -> bool:
    """A third one comes; if it is there already, another life of it."""
    seen = attack.assignments("a")
    if "c" in attack.workers:
        attack.workers["c"].kill()
    return _begin(attack, "c") and attack.wait_for_assignment("a", seen + 1)


def _leave(attack: Round) -> bool:
    """One finishes its partitions, hands them over and goes; then it comes back."""
    seen = attack.assignments("a")
    attack.workers["b"].send(signal.SIGTERM)
    left = attack.workers["b"].wait(attack.place.clock, 60_000) and attack.wait_for_assignment("a", seen + 1)
    return _begin(attack, "b") and left


def _freeze(attack: Round) -> bool:
    """One sleeps until it has been replaced, and wakes up in the middle of what it did."""
    seen, seen_asleep = attack.assignments("a"), attack.assignments("b")
    attack.workers["b"].send(signal.SIGSTOP)
    replaced = attack.wait_for_assignment("a", seen + 1)
    attack.workers["b"].send(signal.SIGCONT)
    return attack.wait_for_assignment("b", seen_asleep + 1) and replaced


def _death(attack: Round) -> bool:
    """One dies, and another takes over."""
    seen, alive = attack.assignments("a"), attack.workers["b"].alive
    attack.workers["b"].kill()
    taken = attack.wait_for_assignment("a", seen + 1)
    return _begin(attack, "b") and alive and taken


def _begin(attack: Round, name: str) -> bool:
    """Start one, and wait until it has been let in: only then is the next move a move of its own."""
    seen = attack.assignments(name)
    attack.start(name, static=False)
    return attack.wait_for_assignment(name, seen + 1)
