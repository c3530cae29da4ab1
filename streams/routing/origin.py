"""The headers of a routed record: where it came from.

Owns their names and how they are written and read. A record that was routed twice has two origins; the later one, which
is the topic that it was read from last, is what readers are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ORIGIN: Final = "recd-origin"
"""The topic. Stored in topics, as the two below: never rename."""
ORIGIN_PARTITION: Final = "recd-origin-partition"
ORIGIN_OFFSET: Final = "recd-origin-offset"
_NAMES: Final = frozenset({ORIGIN, ORIGIN_PARTITION, ORIGIN_OFFSET})

Headers = Sequence[tuple[str, str | bytes | None]]
"""Of a record."""


class Stamp:
    """Writes the origins of one partition's records."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = (ORIGIN, topic.encode())
        self._partition = (ORIGIN_PARTITION, str(partition).encode())

    def headers(self, given: Headers, offset: int) -> list[tuple[str, str | bytes | None]]:
        """What the record has, then where it is from."""
        return [*given, self._topic, self._partition, (ORIGIN_OFFSET, b"%d" % offset)]


def origin_of(headers: Headers | None) -> dict[str, str]:
    """The origin headers of a record by name, as text; none where it was not routed."""
    found = {}
    for name, value in headers or ():
        if name in _NAMES and value is not None:
            found[name] = value if isinstance(value, str) else value.decode(errors="backslashreplace")
    return found
