"""What every rank but the first does: one command of rank 0 after the other. Decides nothing, writes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import torch

from streams.errors import InvariantError
from streams.minibatch import MiniBatch
from trainer.drain import Reason
from trainer.ranks.channel import Channel
from trainer.ranks.commands import heard, tell_batches
from trainer.ranks.composer import FollowingComposer
from trainer.ranks.dense import receive_dense
from trainer.ranks.local import Reading
from trainer.ranks.messages import Batches, Command, Commit, Dense, Idle, Stop, Tables, Train
from trainer.ranks.sharded_tables import ShardedTables
from trainer.ranks.step import SharedStep

_RECENT: Final = 4
"""Steps whose mini-batches are kept: rank 0 may ask for those of a step whose verdict it reads a step late."""


class Follower:
    """One rank's training, for as long as rank 0 wants it. `run` once."""

    def __init__(
        self,
        channel: Channel,
        composer: FollowingComposer,
        reading: Reading,
        tables: ShardedTables,
        step: SharedStep,
        dense: list[torch.Tensor],
        tasks: int,
    ) -> None:
        self._channel = channel
        self._composer = composer
        self._reading = reading
        self._tables = tables
        self._step = step
        self._dense = dense
        self._tasks = tasks
        self._recent: deque[Sequence[MiniBatch]] = deque(maxlen=_RECENT)
        self._composed = 0

    def run(self) -> Reason:
        """Follow until rank 0 says stop; its reason. Raises where rank 0 stopped for an error, or is gone."""
        self._reading.start()
        self._composer.start()
        try:
            while not isinstance(command := heard(self._channel), Stop):
                self._do(command)
        finally:
            self._reading.stop()
        self._composer.join()
        if command.reason is None:
            raise InvariantError(f"rank 0 has stopped all ranks: {command.error}")
        return command.reason

    def _do(self, command: Command) -> None:
        match command:
            case Train():
                torch.manual_seed(command.seed)
                mine = self._composer.part()
                self._recent.append(mine.batches)
                self._composed += 1
                self._step.run(mine.tensors, command, self._tasks)
            case Tables(what="replaced"):
                self._tables.take()
            case Tables(what="weights" | "momenta" as part):
                self._tables.give(part)
            case Dense():
                receive_dense(self._dense)
            case Commit():
                self._reading.commit(command.next_offsets)
            case Batches():
                tell_batches(self._channel, self._recent[command.number - self._composed - 1])
            case Idle():
                pass
            case _:
                raise InvariantError(f"rank 0 says {command}; do all ranks run the same recd?")
