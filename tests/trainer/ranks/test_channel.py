"""Bytes between ranks: short ones, long ones and none."""

from __future__ import annotations

from tests.trainer.ranks import ranks_kit
from trainer.ranks.channel import Channel
from trainer.ranks.group import joined
from trainer.ranks.place import Place

MESSAGES = [b"", b"short", b"x" * 1016, b"y" * 1017, bytes(range(256)) * 1000]


def exchange(place: Place) -> list[object]:
    """Everyone says each message with its rank behind it; rank 0 tells each in turn."""
    with joined(place, "cpu", 60_000):
        channel = Channel(place, 60_000)
        said: list[object] = [channel.gather(message + bytes([place.rank])) for message in MESSAGES]
        for message in MESSAGES:
            if place.leads:
                channel.tell(message)
            else:
                said.append(channel.hear())
    return said


def test_rank_0_hears_everyone_and_everyone_hears_rank_0() -> None:
    leader, *followers = ranks_kit.run(3, exchange)
    assert leader == [[message + bytes([rank]) for rank in range(3)] for message in MESSAGES]
    for heard in followers:
        assert heard == [[]] * len(MESSAGES) + MESSAGES
