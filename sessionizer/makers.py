"""What a partition is made of. Owns the list; never makes anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sessionizer.backlog import Decoder
from sessionizer.core import PartitionCore
from sessionizer.freshness import Freshness
from sessionizer.gate import Gate
from sessionizer.outlet import Journal, Outlet
from sessionizer.profile_copy import ProfileCopy
from sessionizer.reporting import PartitionReport
from streams.inputs import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """How the parts of a partition are made; each is called once per recovery, in this order."""

    outlet: Callable[[], Outlet]
    """Opens the outlet and fences every older writer of the partition."""
    journal: Callable[[], Journal]
    core: Callable[[bytes | None, Position], PartitionCore]
    """The core of a cut, or a new one without; it goes on at the given position."""
    freshness: Callable[[PartitionReport, int], Freshness]
    """How long samples wait; takes the time."""
    decoder: Decoder
    outcomes: Decoder | None = None
    """Decoder of the outcomes where they have a topic of their own."""
    profiles: Callable[[], ProfileCopy] | None = None
    """The working copy of the users' profiles, where they are kept outside the core."""
    gate: Callable[[PartitionReport], Gate] | None = None
    """The gate of the output, where it waits for the trainer."""
