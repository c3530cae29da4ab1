"""The loop's line between ranks: rank 0 says what is next, the others do it. Never decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from streams import wire
from streams.minibatch import MiniBatch
from trainer.ports import Clock
from trainer.ranks.channel import Channel
from trainer.ranks.messages import Batches, Command, Idle, Tables
from trainer.ranks.sharded_tables import Ask

_IDLE_NS: Final = 1_000_000_000


class Commands:
    """Rank 0's end."""

    def __init__(self, channel: Channel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._given_ns = clock.monotonic_ns()

    def give(self, command: Command) -> None:
        """Every other rank hears it next."""
        self._channel.tell(msgspec.msgpack.encode(command))
        self._given_ns = self._clock.monotonic_ns()

    def ask_tables(self, what: Ask) -> None:
        """The others give or take rows of the tables."""
        self.give(Tables(what=what))

    def batches(self, number: int) -> list[MiniBatch]:
        """Those of the other ranks in a step, as they came."""
        self.give(Batches(number=number))
        told = [msgspec.msgpack.decode(each, type=list[bytes]) for each in self._channel.gather(b"")[1:]]
        return [wire.decode(value) for values in told for value in values]

    def stay_in_touch(self) -> None:
        """Long before the others' time-out: rank 0 is there."""
        if self._clock.monotonic_ns() - self._given_ns > _IDLE_NS:
            self.give(Idle())


def tell_batches(channel: Channel, batches: Sequence[MiniBatch]) -> None:
    """The other side of `Commands.batches`."""
    channel.gather(msgspec.msgpack.encode([wire.encode(batch) for batch in batches]))


def heard(channel: Channel) -> Command:
    """The other ranks' end: the next command."""
    command: Command = msgspec.msgpack.decode(channel.hear(), type=Command)
    return command
