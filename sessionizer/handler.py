"""What the seam asks of whoever gets the records, and what it tells them.

Owns the contract between the fetching side and the partitions at work, so that neither knows the other. Never does
anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from streams.events.record import Records
from streams.inputs import Input

Lane = tuple[Input, int]
"""An input and one of its partitions."""


class BulkHandler(Protocol):
    """Who gets the records. All methods are called on the event loop and must return at once, or be awaited."""

    def assigned(self, partitions: set[int]) -> None:
        """These are ours now, of every input, and no others."""

    def torn(self, partitions: set[int]) -> None:
        """These were given to us of some inputs only, so nobody can join them."""

    async def revoked(self) -> None:
        """None are ours any more: finish them; return when nothing of them is left, or time is up."""

    def starts(self) -> dict[Lane, int]:
        """What is to be read from these offsets from now on; each is named once."""

    def wants(self) -> set[Lane]:
        """What may be fetched now."""

    def take(self, lane: Lane, records: Records, next_offset: int) -> None:
        """Records in offset order, none left out, and where the next one can be at the earliest.

        Both may be news alone: markers of transactions, aborted records and compacted ones take offsets, and are never
        handed over. Of what is not ours any more it is ignored.
        """

    def caught_up(self, lags: Mapping[Lane, int]) -> None:
        """How many records each of the fetched still has that were not handed over."""

    def finished(self) -> Mapping[Lane, int]:
        """Next offset to commit of each."""

    def lost(self, partitions: set[int]) -> None:
        """The records that these were to read next are not in the topic; nothing is handed over from elsewhere."""

    def commit_failed(self, error: Exception) -> None:
        """A commit for the observers failed."""

    def group_failed(self, error: Exception) -> None:
        """The broker will not have us in the group, and asking again would not help."""

    def done(self) -> bool:
        """Whether the worker should stop: everything is finished, or something failed."""
