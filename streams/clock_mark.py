"""ClockMark: what the wall clock decided, written down before it takes effect.

A mark lives in the clock topic, in the partition of the same number as the events it is about, and is
acknowledged before the core sees it. Recovery and replay read marks and never decide anew.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from streams.inputs import Input, Position

WHOLE: Final = 1 << 16
"""The share of a shed mark is in parts of this many."""


class MarkKind(StrEnum):
    """Kinds of decision. Values are stored: never rename."""

    IDLE = "idle"
    """The partition was silent: its watermark advances to `value_ms`."""
    FUTURE = "future"
    """The record at `after_offset`, which does not say when it was appended, lies in the future: dead-letter it."""
    FRESH = "fresh"
    """Samples have waited for company long enough: what may leave goes into a batch that is not full."""
    END = "end"
    """The producer declared the end of the stream: close every session, flush the packer, start a new epoch."""
    SHED = "shed"
    """The trainer is too far behind: from here on `share` of the sessions leave without being emitted; 0 ends it."""


class ClockMark(msgspec.Struct, frozen=True, kw_only=True):
    """One decision about one partition."""

    partition: int
    after_offset: int
    """Takes effect when the next offset to read of the interactions is this one: after every smaller one, before it."""
    kind: MarkKind
    value_ms: int = 0
    """Event time, for the kinds that carry one."""
    replaces: int | None = None
    """Offset in the clock topic of the request that this mark settles; the request itself is then void."""
    version: int = 1
    """2 where outcomes have a topic of their own."""
    after_outcomes: int | UnsetType = UNSET
    """The same for the outcomes: a mark takes effect when both inputs are there. Unset where they have no topic."""
    about: int | UnsetType = UNSET
    """Which `Input` an idle or a future mark is about; unset: the interactions."""
    share: int | UnsetType = UNSET
    """Of a shed mark, in parts of `WHOLE`: 0 to `WHOLE`."""

    def __post_init__(self) -> None:
        """A shed mark that does not say how much, or too much, is none: also where it is decoded."""
        if self.kind is MarkKind.SHED and (self.share is UNSET or not 0 <= self.share <= WHOLE):
            raise ValueError(f"a shed mark needs a share in 0..{WHOLE}")

    @staticmethod
    def at(
        position: Position,
        kind: MarkKind,
        *,
        partition: int,
        two: bool,
        about: Input = Input.INTERACTIONS,
        value_ms: int = 0,
        replaces: int | None = None,
        share: int | UnsetType = UNSET,
    ) -> ClockMark:
        """A mark that takes effect at a position; of `two` inputs, or of the interactions alone."""
        own = {"after_outcomes": position.outcomes, "version": 2} if two else {}
        if about is not Input.INTERACTIONS:
            own["about"] = int(about)
        return ClockMark(
            partition=partition,
            after_offset=position.interactions,
            kind=kind,
            value_ms=value_ms,
            replaces=replaces,
            share=share,
            **own,
        )

    @property
    def after(self) -> Position:
        """Where the mark takes effect."""
        return Position(self.after_offset, 0 if self.after_outcomes is UNSET else self.after_outcomes)

    @property
    def input(self) -> Input:
        """Which input the mark is about."""
        return Input.INTERACTIONS if self.about is UNSET else Input(self.about)

    @property
    def shed_share(self) -> int:
        """Share of the sessions to be shed from here on, in parts of `WHOLE`; 0 for any other kind of mark."""
        return 0 if self.share is UNSET else self.share

    def encode(self) -> bytes:
        """As one line of JSON."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(data: bytes) -> ClockMark:
        """Raises msgspec.ValidationError or msgspec.DecodeError on anything else."""
        return msgspec.json.decode(data, type=ClockMark)
