"""Rank 0's feed: steps that all ranks have ready. Owns no rule of its own."""

from __future__ import annotations

from collections.abc import Mapping

from trainer.ranks.commands import Commands
from trainer.ranks.composer import LeadingComposer
from trainer.ranks.local import Reading
from trainer.ranks.messages import Commit
from trainer.ready import Nothing, Prepared


class LeadingFeed:
    """A `Feed` over the partitions of all ranks."""

    def __init__(self, reading: Reading, composer: LeadingComposer, commands: Commands) -> None:
        self._reading = reading
        self._composer = composer
        self._commands = commands

    def start(self) -> None:
        """Start rank 0's reader and the composer."""
        self._reading.start()
        self._composer.start()

    def next(self, wait_ms: int) -> Prepared | Nothing:
        """The next step."""
        self._commands.stay_in_touch()
        return self._composer.next(wait_ms)

    def peek(self) -> Prepared | None:
        """The step after it."""
        return self._composer.peek()

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Every rank offers the offsets of its own partitions."""
        self._commands.give(Commit(next_offsets=dict(next_offsets)))
        self._reading.commit(dict(next_offsets))

    def stop(self) -> None:
        """Stop the composers, then rank 0's reader. The others' end with the last command."""
        self._composer.stop()
        self._reading.stop()

    @property
    def duplicates(self) -> int:
        """Mini-batches that had been trained already, of all ranks."""
        return self._composer.duplicates

    @property
    def commit_failures(self) -> int:
        """Commits that failed, of all ranks."""
        return self._composer.commit_failures
