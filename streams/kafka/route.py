"""Route: any topic into an input, each record in the partition of its user, exactly once. The run as a whole.

Owns how often it is begun: until it is told to stop or the end is reached that the source had at the start, and anew
after each failure of Kafka. Never prints; a listener is told how far it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from streams.errors import RetryableError
from streams.events.formats.choose import choose
from streams.kafka.registry import Registry
from streams.kafka.route_config import RouteConfig
from streams.kafka.route_session import Clock, RouteSession
from streams.kafka.route_sink import Counts, RouteSink
from streams.kafka.route_source import RouteSource
from streams.routing.addresses import routing_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteReport:
    """What became of the records of this run, as far as it is committed."""

    read: int
    """Records of the source."""
    written: int
    """Records of the target: more than were read where messages of many users were split."""
    dead_letter: int
    bytes: int
    """Of the values that were written."""
    reasons: dict[str, int]
    """Dead letters by reason."""
    left: int
    """Records of the source that are not read yet, as far as is known; until the end, those up to it."""
    failures: int
    """How often everything was opened anew because Kafka failed."""


Listener = Callable[[RouteReport, RetryableError | None], None]
"""Told after each transaction, and of each failure that is followed by another try."""


class Route:
    """One run. Make a new one for another."""

    def __init__(
        self, config: RouteConfig, clock: Clock, stopped: Callable[[], bool], listener: Listener = lambda *_: None
    ) -> None:
        """`stopped`: whether to leave, which happens after a transaction, within moments."""
        self._config = config
        self._clock = clock
        self._stopped = stopped
        self._listener = listener
        self._format = choose(config.format, routing_schema(config.roles), lambda: Registry(config.format))
        self._counts = Counts()
        self._left, self._failures = 0, 0
        self._ends: dict[int, int] | None = None

    @property
    def report(self) -> RouteReport:
        """So far."""
        counts = self._counts
        return RouteReport(
            read=counts.read,
            written=counts.written,
            dead_letter=counts.reasons.total(),
            bytes=counts.bytes,
            reasons=dict(sorted(counts.reasons.items())),
            left=self._left,
            failures=self._failures,
        )

    def run(self) -> bool:
        """Route; returns whether the end was reached. ConfigError where it would be wrong to begin or to go on."""
        ended = False
        while not ended and not self._stopped():
            try:
                with self._session() as session:
                    ended = session.run(self._stopped)
            except RetryableError as error:
                if self._config.until_end:
                    raise
                self._failures += 1
                self._listener(self.report, error)
                self._clock.sleep(self._config.retry_ms)
        return ended

    @contextmanager
    def _session(self) -> Iterator[RouteSession]:
        config = self._config
        # The sink first: it ends what an earlier process has left open, and only then positions are final.
        with (
            closing(RouteSink(config.kafka, config.topics, config.target_topic, config.name)) as sink,
            closing(RouteSource(config.kafka, config.source, config.name)) as source,
        ):
            session = RouteSession(config, self._clock, self._format, source, sink, self._committed)
            # What this run has committed is no longer the past that was to be forgotten.
            self._ends = session.begin(self._ends, from_start=config.from_start and not self._counts.read)
            yield session

    def _committed(self, counts: Counts, left: int) -> None:
        self._counts.add(counts)
        self._left = left
        self._listener(self.report, None)
