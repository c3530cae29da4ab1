"""MemoryStore: a Store inside this process, for tests, replays and runs without Redis.

Owns a dictionary and the end of life of its values. The clock comes in from outside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from state.store import MISSING, Missing, Versioned, check_values


class MemoryStore:
    """A Store that threads of one process share."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """`now_ms` decides when values have outlived their time to live."""
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._values: dict[str, tuple[bytes, int | None]] = {}

    def get_many(self, keys: Sequence[str]) -> list[bytes | Missing]:
        with self._lock:
            return [self._get(key) for key in keys]

    def put_many(self, values: Mapping[str, bytes], ttl_ms: int | None) -> None:
        check_values(values, ttl_ms)
        with self._lock:
            self._put(values, ttl_ms)

    def delete_many(self, keys: Sequence[str]) -> None:
        with self._lock:
            for key in keys:
                self._values.pop(key, None)

    def compare_and_set(self, key: str, expected: int | Missing, new: Versioned, ttl_ms: int | None) -> bool:
        check_values({key: new.blob}, ttl_ms)
        with self._lock:
            found = self._get(key)
            version = MISSING if found is MISSING else Versioned.decode(found).version
            if version != expected:
                return False
            self._put({key: new.encode()}, ttl_ms)
            return True

    def _get(self, key: str) -> bytes | Missing:
        value, dies_ms = self._values.get(key, (MISSING, None))
        if dies_ms is not None and self._now_ms() >= dies_ms:
            del self._values[key]
            return MISSING
        return value

    def _put(self, values: Mapping[str, bytes], ttl_ms: int | None) -> None:
        dies_ms = None if ttl_ms is None else self._now_ms() + ttl_ms
        self._values.update({key: (value, dies_ms) for key, value in values.items()})
