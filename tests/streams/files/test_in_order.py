"""The order of messages over all files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.events.outgoing import Outgoing
from streams.files.in_order import InOrder


@given(st.lists(st.integers(-5, 5), max_size=60), st.sampled_from([1, 1000, 1 << 30]))
def test_messages_come_back_by_time_and_within_a_time_as_they_came(times: list[int], memory_bytes: int) -> None:
    with InOrder(memory_bytes) as messages:
        for i, time in enumerate(times):
            messages.add(Outgoing(time, f"k{i}".encode(), b"v" * (i % 3)), f"file:{i}".encode())
        found = [(m.event_time_ms, m.source, m.key, m.value) for m in messages]
        assert len(messages) == len(times)
    expected = sorted(enumerate(times), key=lambda pair: pair[1])
    assert found == [(time, f"file:{i}".encode(), f"k{i}".encode(), b"v" * (i % 3)) for i, time in expected]
