"""Sessions of the event-by-event baseline as mini-batches: the same groups, the same format, the same library.

Owns the way from lists of samples to a message. Whole batches are built at once: what costs nothing to do better is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.sessionizer.by_event import Sample
from benchmarks.sessionizer.setup import BATCH, IDS
from streams import wire
from streams.events.schema import EventSchema
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.minibatch import Lineage, MiniBatch


class Batches:
    """Whole sessions of one partition, until they fill a batch. `send` gets each message."""

    def __init__(self, schema: EventSchema, partition: int, send: Callable[[int, bytes], object]) -> None:
        self._schema = schema
        self._fingerprint = schema.fingerprint()
        self._partition = partition
        self._send = send
        self._sequence = 0
        self._samples: list[Sample] = []

    def add(self, session: Sequence[Sample]) -> None:
        """The samples of one session."""
        if len(self._samples) + len(session) > BATCH:
            self.flush()
        self._samples += session

    def flush(self) -> None:
        """Send what is there."""
        if self._samples:
            self._send(self._partition, wire.encode(self._batch(self._samples)))
            self._sequence += 1
            self._samples = []

    def _batch(self, samples: list[Sample]) -> MiniBatch:
        views = [sample.view for sample in samples]
        rows = {name: _single([getattr(view, name) for view in views]) for name in IDS}
        rows["clicks"] = Jagged.from_lists([sample.history for sample in samples])
        groups = self._schema.all_groups
        time_ms, user = np.array([view.at for view in views]), np.array([view.user for view in views])
        new = np.append(True, user[1:] != user[:-1])
        return MiniBatch(
            partition=self._partition,
            sequence=self._sequence,
            watermark_ms=int(time_ms[-1]),
            fingerprint=self._fingerprint,
            lineage=Lineage(
                offset=np.array([sample.offset for sample in samples]),
                event_id=np.array([view.id for view in views], np.uint64),
                session_id=(user * (1 << 20) + np.flatnonzero(new)[np.cumsum(new) - 1]).astype(np.uint64),
                event_time_ms=time_ms,
                appended_ms=np.full(len(samples), -1),
            ),
            labels=np.array([[sample.clicked] for sample in samples], np.float32),
            dense=np.array([[view.price] for view in views], np.float32),
            groups=tuple(deduplicate(group.name, {key: rows[key] for key in group.features}) for group in groups),
        )


def _single(ids: list[Any]) -> Jagged:
    return Jagged(np.array(ids, np.int64), np.arange(len(ids) + 1))
