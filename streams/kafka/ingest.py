"""Ingest: files into an input topic, in event-time order, every row accounted for.

Owns the run: read, order, send at a pace, settle, end marks, and the identity
rows read = events produced + dead letters, which is checked. Never prints; a listener is told how far it is.

What has no time, no user or is too large goes to the dead-letter topic here, with file and line; everything
else is the decoder's to judge, where the whole schema is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from streams.errors import InvariantError, PoisonError, Reason
from streams.events.outgoing import Addresser
from streams.events.roles import Roles
from streams.files.in_order import InOrder
from streams.files.line import BadLine, Line
from streams.files.read import Format, read
from streams.inputs import Input
from streams.kafka.client import KafkaConfig
from streams.kafka.dead_letter import from_line
from streams.kafka.end_marks import write_end_marks
from streams.kafka.outbox import Clock, Outbox
from streams.kafka.pace import Pace, flat_out
from streams.kafka.topics import TopicsConfig

_TELL_EVERY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What became of the rows."""

    read: int
    produced: int
    dead_letter: int
    bytes: int
    """Of the values of produced events."""
    reasons: dict[str, int]
    """Dead letters by reason."""
    examples: dict[str, str]
    """By reason, the first row found bad: where it is and what is wrong with it. Not for what a broker refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    rows_read: int
    sent: int
    to_send: int
    """Known when all files are read; 0 before."""
    dead_letter: int


Listener = Callable[[Progress], None]


class Ingest:
    """One run. Make a new one for another."""

    def __init__(
        self,
        kafka: KafkaConfig,
        topics: TopicsConfig,
        roles: Roles,
        clock: Clock,
        *,
        pace: Pace = flat_out,
        listener: Listener = lambda _progress: None,
        target: Input = Input.INTERACTIONS,
    ) -> None:
        """`target`: which input the files are for."""
        self._kafka = kafka
        self._topics = topics
        self._addresser = Addresser(roles)
        self._clock = clock
        self._pace = pace
        self._listener = listener
        self._target = target
        self._outbox = Outbox(kafka, topics, clock, target)
        self._rows = 0
        self._sent = 0
        self._buried = 0
        self._examples: dict[str, str] = {}

    def run(self, files: Sequence[Path], kind: Format | None = None, *, end: bool = False) -> IngestReport:
        """Send everything and return when the broker has it.

        `kind`: the files' format, where their names do not say it. `end`: declare the end of the stream.
        """
        with InOrder() as events:
            for file in files:
                for line in read(file, kind):
                    self._take(events, file, line)
            self._send(events)
        self._outbox.settle()
        report = self.report
        if report.read != report.produced + report.dead_letter:
            raise InvariantError(f"rows read do not match: {report}")
        if end:
            write_end_marks(self._outbox, self._kafka, self._topics, self._target)
        return report

    @property
    def report(self) -> IngestReport:
        """So far: what the broker has acknowledged."""
        outbox = self._outbox
        return IngestReport(
            read=self._rows,
            produced=outbox.delivered,
            dead_letter=outbox.reasons.total(),
            bytes=outbox.delivered_bytes,
            reasons={str(reason): number for reason, number in sorted(outbox.reasons.items())},
            examples=dict(sorted(self._examples.items())),
        )

    def abandon(self) -> IngestReport:
        """Stop after an interruption: what is not under way is not sent."""
        self._outbox.abandon()
        return self.report

    def _take(self, events: InOrder, file: Path, line: Line | BadLine) -> None:
        self._rows += 1
        if self._rows % _TELL_EVERY == 0:
            self._tell(0)
        if isinstance(line, BadLine):
            self._bury(file, line.number, line.raw, line.reason, line.detail)
            return
        try:
            event = self._addresser.address(line.value, self._clock.now_ms())
        except PoisonError as error:
            self._bury(file, line.number, line.value, error.reason, error.detail)
            return
        events.add(event, f"{file}:{line.number}".encode(errors="surrogateescape"))

    def _bury(self, file: Path, number: int, raw: bytes, reason: Reason, detail: str) -> None:
        self._buried += 1
        self._examples.setdefault(str(reason), f"{file}:{number}: {detail}")
        self._outbox.bury(from_line(str(file), number, raw, reason, detail, self._clock.now_ms()), reason)

    def _send(self, events: InOrder) -> None:
        started_ms = self._clock.monotonic_ms()
        first_ms: int | None = None
        for number, event in enumerate(events):
            first_ms = event.event_time_ms if first_ms is None else first_ms
            due_ms = started_ms + self._pace(number, event.event_time_ms - first_ms)
            while (wait_ms := due_ms - self._clock.monotonic_ms()) > 0:
                self._outbox.wait(min(wait_ms, 100))
                self._tell(len(events))
            self._outbox.send(event)
            self._sent = number + 1
            if self._sent % _TELL_EVERY == 0 or self._sent == len(events):
                self._tell(len(events))

    def _tell(self, to_send: int) -> None:
        progress = Progress(rows_read=self._rows, sent=self._sent, to_send=to_send, dead_letter=self._buried)
        self._listener(progress)
