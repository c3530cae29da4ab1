"""What recd's worker does, event by event, as one would write it in an agent: a heap, dictionaries and lists.

Owns the baseline's rules: late and duplicate events, canonical order, sessions, joined labels, histories. Nothing
survives the process, and no cap bounds what it holds.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

GAP_MS = 1_800_000
LATENESS_MS = 300_000
WINDOW_MS = 1_800_000
DUPLICATE_HORIZON_MS = 3_600_000
LAST = 50
"""Clicked items of a history."""


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
class Sample:
    """An impression on its way into a mini-batch."""

    view: View
    offset: int
    history: list[int]
    """The user's items that were clicked before it, oldest first."""
    clicked: bool = False


@dataclass(slots=True)
class Open:
    """A session that may still grow, or waits for its labels."""

    last_ms: int
    samples: list[Sample] = field(default_factory=list)


class ByEvent:
    """Sessions of one partition. `emit` gets the samples of each session that is over and has its labels."""

    def __init__(self, emit: Callable[[list[Sample]], object] = len) -> None:
        self._emit = emit
        self._decode = msgspec.json.Decoder(View).decode
        self._waiting: list[tuple[int, int, int, View]] = []
        self._seen: OrderedDict[int, int] = OrderedDict()
        self._open: OrderedDict[int, Open] = OrderedDict()
        self._views: dict[int, Sample] = {}
        self._clicks: defaultdict[int, deque[int]] = defaultdict(lambda: deque(maxlen=LAST))
        self._latest_ms = 0
        self.samples = self.clicked = self.late = self.duplicates = 0

    def take(self, value: bytes, offset: int = 0) -> None:
        """One message; whatever its time completes is released in order of (time, id)."""
        event = self._decode(value)
        watermark = self._latest_ms - LATENESS_MS
        if event.id in self._seen:
            self.duplicates += 1
        elif event.at < watermark:
            self.late += 1
        else:
            self._seen[event.id] = event.at
            heapq.heappush(self._waiting, (event.at, event.id, offset, event))
        self._latest_ms = max(self._latest_ms, event.at)
        self._pass(self._latest_ms - LATENESS_MS)

    def finish(self) -> None:
        """There are no more events."""
        self._pass(1 << 62)

    def _pass(self, watermark: int) -> None:
        while self._waiting and self._waiting[0][0] < watermark:
            at, _, offset, event = heapq.heappop(self._waiting)
            self._close_before(at)
            if event.type == "click":
                self._click(event)
            else:
                self._view(event, offset)
        self._close_before(watermark)
        while self._seen and next(iter(self._seen.values())) + DUPLICATE_HORIZON_MS < watermark:
            self._seen.popitem(last=False)

    def _view(self, event: View, offset: int) -> None:
        sample = Sample(event, offset, list(self._clicks[event.user]))
        session = self._open.get(event.user)
        if session is None:
            session = self._open[event.user] = Open(event.at)
        session.samples.append(sample)
        session.last_ms = event.at
        self._views[event.id] = sample
        self._open.move_to_end(event.user)

    def _click(self, event: View) -> None:
        sample = self._views.get(event.of)
        if sample is not None and event.at < sample.view.at + WINDOW_MS:
            sample.clicked = True
            self._clicks[event.user].append(sample.view.item)

    def _close_before(self, now_ms: int) -> None:
        """Send off the sessions that are over, and whose labels are known, when event time reaches this."""
        while self._open:
            user, session = next(iter(self._open.items()))
            if session.last_ms + max(GAP_MS, WINDOW_MS) > now_ms:
                return
            del self._open[user]
            for sample in session.samples:
                del self._views[sample.view.id]
            self.samples += len(session.samples)
            self.clicked += sum(sample.clicked for sample in session.samples)
            self._emit(session.samples)
