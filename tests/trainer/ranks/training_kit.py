"""Ranks that train mini-batches from memory: a rank's work, to be run in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from infra.clock import Clock
from streams.minibatch import MiniBatch
from tests.trainer.lineage_kit import TOPIC
from trainer.buffer import Buffer
from trainer.build import Around
from trainer.crash import kill_at, never
from trainer.drain import Drain
from trainer.intake import GapError, Intake, Item
from trainer.ledger import Positions, TopicIdentity
from trainer.ranks.build import Job, follow, lead
from trainer.ranks.place import Place
from trainer.ranks.reading import Opened
from trainer.run_config import Switches, TrainerConfig

Log = Mapping[int, Sequence[MiniBatch]]


class Memory:
    """A `Reading` of the partitions that a rank owns, offsets as in `lineage_kit`."""

    def __init__(self, log: Log, place: Place, positions: Positions, buffer: Buffer) -> None:
        self._own = {number: batches for number, batches in log.items() if place.owns(number)}
        self._positions = positions
        self._buffer = buffer
        self._intakes = {number: Intake(number, positions.get(number)) for number in self._own}
        self.commit_failures = 0

    def start(self) -> None:
        for number, batches in self._own.items():
            for batch in batches:
                start = self._positions[number].next_offset - 2 if number in self._positions else 0
                if 2 * batch.sequence >= start and self._accepts(batch):
                    self._buffer.put(Item(partition=number, offset=2 * batch.sequence, num_bytes=100, batch=batch))
            self._buffer.end(number)

    def _accepts(self, batch: MiniBatch) -> bool:
        try:
            return self._intakes[batch.partition].accepts(batch.sequence, 2 * batch.sequence)
        except GapError as error:
            # As a reader's thread does.
            self._buffer.fail(error)
            return False

    def stop(self) -> None:
        self._buffer.close()

    def commit(self, next_offsets: dict[int, int]) -> None:
        """Nobody observes."""

    @property
    def duplicates(self) -> int:
        return sum(intake.duplicates for intake in self._intakes.values())


def open_memory(
    log: Log,
    config: TrainerConfig,
    place: Place,
    _expected: TopicIdentity | None,
    positions: Positions,
    around: Around,
    _switches: Switches,
) -> Opened:
    own = [number for number in log if place.owns(number)]
    buffer = Buffer(own, config.source.queue_bytes, config.source.queue_batches, around.clock.now_ms)
    return Opened(topic=TOPIC, reading=Memory(log, place, positions, buffer), buffer=buffer)


def train(
    place: Place, config: TrainerConfig, log: Log, max_steps: int | None = None, crash: str = "", drained: int = -1
) -> Any:  # noqa: ANN401  (a summary as plain values, or a reason)
    """A rank's run. `crash`: where rank 0 kills itself. `drained`: a rank that is told to stop at once."""
    drain = Drain(60_000)
    if place.rank == drained:
        drain.request("sigterm")
    job = Job(
        config=config,
        place=place,
        around=Around(clock=Clock(), crash=kill_at(crash) if crash else never),
        drain=drain,
        switches=Switches(exit_at_end=True, max_steps=max_steps),
        open=partial(open_memory, log),
    )
    return asdict(lead(job)) if place.leads else follow(job)
