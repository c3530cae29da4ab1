"""Parsed messages of a poll, and the protocol of the formats that parse them.

Owns the line between what a format knows (how bytes become fields) and what all formats share (what the fields
mean). A format that follows it gives the same events, verdicts and dead letters as every other one.

A message of most formats is one event; of some it is many. An event's *place* in a poll says which record it came
from and where in it: place = record's position * `Format.stride` + row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streams.events.columns import Verdicts
from streams.events.event import I64, U64, ListColumn
from streams.events.record import Record
from streams.events.values import Values


class Messages(Protocol):
    """N events that are objects with fields of the right shape; no scalar among them is a float that is not finite."""

    @property
    def places(self) -> I64:
        """[N], ascending."""

    @property
    def content_hash(self) -> U64:
        """[N], of the event's bytes, or of its message's bytes and its row."""

    def __len__(self) -> int: ...

    def scalars(self, name: str) -> Values:
        """[N], a field that holds one value."""

    def lists(self, name: str, which: I64, *, required: bool, verdicts: Verdicts) -> ListColumn:
        """[N] rows, empty for events that are not chosen, or whose list is missing or wrong; the latter are rejected.

        `which`: the chosen events, by their index.
        """


class Format(Protocol):
    """Parses the values of records. Between polls it holds what it knows of schemas, and lists to recognise."""

    @property
    def stride(self) -> int:
        """More than the largest row of an event in its message; 1 where every message is one event."""

    def parse(self, positions: Sequence[int], values: Sequence[bytes], verdicts: Verdicts) -> Messages:
        """The events of the values of the records at `positions`; what cannot be parsed is rejected by its place.

        RetryableError if what is needed to judge them is not to be had at the moment.
        """

    def letter(self, record: Record, row: int) -> Record:
        """The record with that event alone: what a dead letter of it holds."""
