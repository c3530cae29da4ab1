"""MemoryProfiles: a ProfileStore inside this process, for tests and replays.

Owns a dictionary for each shelf.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from state.store import MISSING, Missing


@dataclass
class _Shelf:
    tag: bytes | Missing = MISSING
    values: dict[int, bytes] = field(default_factory=dict)


class MemoryProfiles:
    """A ProfileStore that threads of one process share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shelves: dict[str, _Shelf] = {}

    def read(self, shelf: str, users: Sequence[int]) -> tuple[bytes | Missing, list[bytes | Missing]]:
        with self._lock:
            found = self._shelves.get(shelf, _Shelf())
            return found.tag, [found.values.get(user, MISSING) for user in users]

    def write(self, shelf: str, values: Mapping[int, bytes | None], expected: bytes | Missing, tag: bytes) -> bool:
        with self._lock:
            found = self._shelves.setdefault(shelf, _Shelf())
            if found.tag != expected:
                return False
            for user, value in values.items():
                if value is None:
                    found.values.pop(user, None)
                else:
                    found.values[user] = value
            found.tag = tag
            return True

    def clear(self, shelf: str, expected: bytes | Missing, tag: bytes) -> bool:
        with self._lock:
            if self._shelves.get(shelf, _Shelf()).tag != expected:
                return False
            self._shelves[shelf] = _Shelf(tag)
            return True
