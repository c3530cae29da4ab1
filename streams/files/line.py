"""What every reader yields: a message with its line, or a line that is no message. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streams.errors import Reason

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Longest line that is kept in memory; of a longer one only the beginning is kept, to be shown."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a file as a JSON message."""

    number: int
    """From 1; in Parquet the number of the row."""
    value: bytes


@dataclass(frozen=True, slots=True)
class BadLine:
    """One row that is no message."""

    number: int
    reason: Reason
    detail: str
    raw: bytes
    """Its bytes as far as they are known."""
