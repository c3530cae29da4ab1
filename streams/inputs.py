"""The inputs of one join task, and positions in both of them.

Partition p of the sessionizer reads partition p of the interactions and, where outcomes have a topic of their own,
partition p of that topic. Owns their names and how two positions compare. Reads nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Input(IntEnum):
    """What a record was read from. Values are stored in clock marks: never renumber."""

    INTERACTIONS = 0
    OUTCOMES = 1


class Position(NamedTuple):
    """Next offset to read of each input; `outcomes` stays 0 where there is no such topic.

    Compare with `reaches`: as a tuple it would compare the interactions first, which means nothing.
    """

    interactions: int = 0
    outcomes: int = 0

    def moved(self, source: Input, next_offset: int) -> Position:
        """The same but for one input."""
        return Position(next_offset, self[1]) if source is Input.INTERACTIONS else Position(self[0], next_offset)

    def reaches(self, other: Position) -> bool:
        """Whether no input is behind `other`."""
        return self[0] >= other[0] and self[1] >= other[1]

    def joined(self, other: Position) -> Position:
        """The earliest position that reaches both."""
        return Position(max(self[0], other[0]), max(self[1], other[1]))
