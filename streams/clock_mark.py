"""ClockMark: what the wall clock decided, written down before it takes effect.

A mark lives in the clock topic, in the partition of the same number as the events it is about, and is
acknowledged before the core sees it. Recovery and replay read marks and never decide anew.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


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


class ClockMark(msgspec.Struct, frozen=True, kw_only=True):
    """One decision about one partition."""

    partition: int
    after_offset: int
    """Takes effect when the next offset to read is this one: after every smaller offset, before this one."""
    kind: MarkKind
    value_ms: int = 0
    """Event time, for the kinds that carry one."""
    replaces: int | None = None
    """Offset in the clock topic of the request that this mark settles; the request itself is then void."""
    version: int = 1

    def encode(self) -> bytes:
        """As one line of JSON."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(data: bytes) -> ClockMark:
        """Raises msgspec.ValidationError or msgspec.DecodeError on anything else."""
        return msgspec.json.decode(data, type=ClockMark)
