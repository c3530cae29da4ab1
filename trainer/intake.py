"""What may enter the trainer from one partition: the sequence rule and the end of an epoch. Pure.

A record with the sequence that is due enters; a smaller one was trained already and is a duplicate; a larger one
means that records are missing, and stops the trainer. Nothing is ever skipped over in silence.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.errors import InvariantError
from streams.minibatch import MiniBatch
from trainer.ledger import Entry, Position


class GapError(InvariantError):
    """Mini-batches are missing from a partition."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Item:
    """One mini-batch with its place in the topic."""

    partition: int
    offset: int
    num_bytes: int
    """Size on the wire."""
    batch: MiniBatch

    @property
    def next_offset(self) -> int:
        """Where to go on after this item."""
        return self.offset + 1

    @property
    def sequence(self) -> int:
        return self.batch.sequence

    @property
    def watermark_ms(self) -> int:
        return self.batch.watermark_ms

    @property
    def samples(self) -> int:
        return len(self.batch)

    def entry(self) -> Entry:
        """The item as the ledger names it."""
        return Entry(self.partition, self.offset, self.sequence, self.batch.content_hash, len(self.batch))


class Intake:
    """One partition's gate. Begins at a checkpoint's position, or anywhere when the lineage is new."""

    def __init__(self, partition: int, start: Position | None, *, ordered: bool = True) -> None:
        self._partition = partition
        self._due = start.next_sequence if start else None
        self._ordered = ordered
        self.duplicates = 0
        # Without order a start may lie behind the end record: the end of the log is then the end.
        self.ended_epoch = -1 if ordered else 0
        """Epoch whose end record was the last thing delivered; -1 while mini-batches may follow."""

    def accepts(self, sequence: int, offset: int) -> bool:
        """Whether the mini-batch is the one due; False for a duplicate, GapError when others are missing."""
        if self._ordered and self._due is not None and sequence < self._due:
            # It says nothing about the end: whatever followed its first copy has been delivered.
            self.duplicates += 1
            return False
        self.ended_epoch = -1
        if not self._ordered:
            return True
        if self._due is not None and sequence > self._due:
            raise GapError(
                f"partition {self._partition}: sequence {self._due} was due, but {sequence} stands at offset {offset}; "
                f"{sequence - self._due} mini-batches are missing: rebuild them by replay, or begin a new lineage"
            )
        self._due = sequence + 1
        return True

    def ends(self, epoch: int) -> None:
        """The end record of an epoch was delivered."""
        self.ended_epoch = epoch
