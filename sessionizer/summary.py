"""What a worker leaves behind when it stops."""

from __future__ import annotations

from dataclasses import dataclass

from sessionizer.account import Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a worker leaves behind."""

    partitions: list[int]
    """Held when it stopped."""
    ended: bool
    """Whether all of them had reached their end marks."""
    interrupted: bool
    """Whether SIGINT stopped it."""
    held: int
    account: Account
