"""Sessions and joined labels event by event, as one would write them in an agent: a dictionary of open sessions.

Owns the baseline's rules, which are simpler than recd's: events in order, no late ones, no duplicates, no histories,
nothing that survives the process.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import msgspec

GAP_MS = 1_800_000
LATENESS_MS = 300_000


class View(msgspec.Struct, gc=False):
    """The fields of a message that are read."""

    type: str
    id: int
    user: int
    at: int
    item: int = 0
    category: int = 0
    shop: int = 0
    city: int = 0
    device: int = 0
    page: int = 0
    hour: int = 0
    price: float = 0.0
    of: int = 0


@dataclass(slots=True)
class Open:
    """A session that may still grow."""

    last_ms: int
    views: list[View] = field(default_factory=list)


class ByEvent:
    """Sessions of one partition."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(View).decode
        self._open: OrderedDict[int, Open] = OrderedDict()
        self._clicked: set[int] = set()
        self.samples = 0
        self.clicked = 0

    def take(self, value: bytes) -> None:
        """One event; closes every session whose gap is over."""
        event = self._decode(value)
        if event.type == "click":
            self._clicked.add(event.of)
        else:
            session = self._open.get(event.user)
            if session is None:
                session = self._open[event.user] = Open(event.at)
            session.views.append(event)
            session.last_ms = event.at
            self._open.move_to_end(event.user)
        self.close_before(event.at - LATENESS_MS - GAP_MS)

    def close_before(self, silent_since_ms: int) -> None:
        """Close the sessions that were last heard of at this time or before."""
        while self._open:
            user, session = next(iter(self._open.items()))
            if session.last_ms > silent_since_ms:
                return
            del self._open[user]
            for view in session.views:
                self.samples += 1
                if view.id in self._clicked:
                    self._clicked.remove(view.id)
                    self.clicked += 1
