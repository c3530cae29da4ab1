"""What every rank but the first does: one command of rank 0 after the other. Decides nothing, writes nothing."""

from __future__ import annotations

import torch

from streams.errors import InvariantError
from trainer.drain import Reason
from trainer.ranks.channel import Channel
from trainer.ranks.commands import heard
from trainer.ranks.composer import FollowingComposer
from trainer.ranks.dense import receive_dense
from trainer.ranks.local import Reading
from trainer.ranks.messages import Command, Commit, Dense, Idle, Stop, Tables, Train
from trainer.ranks.sharded_tables import ShardedTables
from trainer.ranks.step import SharedStep


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
                self._step.run(self._composer.part(), command, self._tasks)
            case Tables(what="replaced"):
                self._tables.take()
            case Tables(what="weights" | "momenta" as part):
                self._tables.give(part)
            case Dense():
                receive_dense(self._dense)
            case Commit():
                self._reading.commit(command.next_offsets)
            case Idle():
                pass
            case _:
                raise InvariantError(f"rank 0 says {command}; do all ranks run the same recd?")
