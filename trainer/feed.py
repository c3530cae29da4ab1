"""Everything between the topic and the loop, under one handle: reader, buffer, composer. Owns no rule of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from trainer.prefetch import Prefetch
from trainer.ready import Nothing, Prepared
from trainer.source import Commits, Source


class Feed(Protocol):
    """Where steps come from."""

    def start(self) -> None:
        """Begin to read."""

    def next(self, wait_ms: int) -> Prepared | Nothing:
        """The next step, after at most `wait_ms`. Raises what went wrong behind it."""

    def peek(self) -> Prepared | None:
        """The step after it, if it is ready by now."""

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Everything before these offsets is in a checkpoint."""

    def stop(self) -> None:
        """End the threads behind it."""

    @property
    def duplicates(self) -> int:
        """Mini-batches that came twice and were dropped."""

    @property
    def commit_failures(self) -> int:
        """Commits for observers that failed."""


class KafkaFeed:
    """Steps out of the mini-batch topic."""

    def __init__(self, source: Source, prefetch: Prefetch, commits: Commits) -> None:
        self._source = source
        self._prefetch = prefetch
        self._commits = commits

    def start(self) -> None:
        """Start the reader and the composer."""
        self._source.start()
        self._prefetch.start()

    def next(self, wait_ms: int) -> Prepared | Nothing:
        """The next step."""
        return self._prefetch.next(wait_ms)

    def peek(self) -> Prepared | None:
        """The step after it."""
        return self._prefetch.peek()

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Offer offsets to the group, for observers."""
        self._source.commit(next_offsets)

    def stop(self) -> None:
        """Stop the composer, then the reader, which sends the last commit."""
        self._prefetch.stop()
        self._source.stop()

    @property
    def duplicates(self) -> int:
        """Mini-batches that had been trained already."""
        return self._source.duplicates

    @property
    def commit_failures(self) -> int:
        """Commits that failed."""
        return self._commits.failures
