"""How fast events are sent: flat out, so many a second, or as they once happened. Pure.

A pace says how long after the first event, in milliseconds, an event is due.
"""

from __future__ import annotations

from collections.abc import Callable

Pace = Callable[[int, int], float]
"""(number of the event from 0, event time after the first event's in ms) to ms after the start."""


def flat_out(_number: int, _since_first_ms: int) -> float:
    """All at once."""
    return 0.0


def at_rate(events_per_s: float) -> Pace:
    """Evenly, so many a second."""
    return lambda number, _since_first_ms: number * 1000 / events_per_s


def at_speed(times: float) -> Pace:
    """As they happened, `times` as fast."""
    return lambda _number, since_first_ms: since_first_ms / times
