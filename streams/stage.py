"""Stages: how much was known of a sample's labels when it left.

Owns the numbers and what they mean. They are on the wire: never renumber.
"""

from __future__ import annotations

from enum import IntEnum


class Stage(IntEnum):
    """How much was known of a sample's labels when it left."""

    SETTLED = 0
    """All that will ever be known. Every sample of the policies that wait is of this stage."""
    PROVISIONAL = 1
    """What was known at that time: a label of 0 may still turn, and is followed by a correction if it does."""
    CORRECTION = 2
    """A copy of a sample that left as PROVISIONAL: 1 where a label has turned, NaN for every other label."""
