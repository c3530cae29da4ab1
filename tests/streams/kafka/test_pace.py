"""When events are due."""

from __future__ import annotations

from streams.kafka.pace import at_rate, at_speed, flat_out


def test_events_are_due_at_once_at_a_rate_or_as_they_happened() -> None:
    assert flat_out(7, 5000) == 0
    assert at_rate(500)(10, 99) == 20
    assert at_speed(60)(10, 60_000) == 1000
