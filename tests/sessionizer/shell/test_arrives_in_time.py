"""A real worker chooses the wait itself: mini-batches are read in time, not much sooner, and a replay repeats them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from infra.clock import Deadline
from sessionizer.core import PartitionCore
from sessionizer.effects import EmitBatch
from streams import wire
from streams.clock_mark import ClockMark, MarkKind
from streams.events.decode import EventDecoder
from streams.kafka import client
from streams.minibatch import MiniBatch
from tests.sessionizer.shell.memory import Log
from tests.sessionizer.shell.test_partition import replay
from tests.sessionizer.shell.town import WAIT_MS, Town, is_end, town
from tests.sessionizer.shell.world import BATCHES, SCHEMA, SESSIONS, events, identities, records

TARGET_MS = 1_500
STEERED = replace(BATCHES, samples=10_000, target_fresh_ms=TARGET_MS)
"""No mini-batch is ever full."""
FIRST, AT_ONCE = 400, 20
"""Records that are appended before time is taken, and together from then on."""
LIVE_MS = 5_000


@dataclass
class Live:
    """Appends a stream as it happens, and reads what comes of it."""

    place: Town
    producer: Producer
    reader: Consumer
    appended_ms: list[int] = field(default_factory=list)
    """When each record was in the topic."""
    read: list[tuple[int, MiniBatch]] = field(default_factory=list)
    """When each mini-batch was read."""

    def append(self, pairs: list[tuple[bytes, bytes]]) -> None:
        for key, value in pairs:
            self.producer.produce(self.place.topics.interactions, value, key, 0)
        assert self.producer.flush(WAIT_MS / 1000) == 0
        self.appended_ms += [self.place.clock.now_ms()] * len(pairs)

    def look(self) -> None:
        while (message := self.reader.poll(0.02)) is not None:
            if message.error() is None and not is_end(message):
                self.read.append((self.place.clock.now_ms(), wire.decode(message.value() or b"")))

    def go_on(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Some records, again and again, for as long as it is to last."""
        until = Deadline.after(self.place.clock, LIVE_MS)
        while not until.passed:
            at = len(self.appended_ms)
            self.append(pairs[at : at + AT_ONCE])
            self.look()
            self.place.clock.sleep(20)


@contextmanager
def living(place: Town) -> Iterator[Live]:
    """A stream that nothing has happened on."""
    reader = client.consumer(place.kafka, group="reader")
    reader.assign([TopicPartition(place.topics.minibatches, 0, 0)])
    try:
        yield Live(place, client.producer(place.kafka, client_id="live"), reader)
    finally:
        reader.close()


def could_leave(pairs: list[tuple[bytes, bytes]]) -> dict[int, int]:
    """Offset of each sample to that of the record behind which it could leave, or of one of the same append."""
    core, decoder = PartitionCore(SCHEMA, SESSIONS, STEERED, 0), EventDecoder(SCHEMA)
    found: dict[int, int] = {}
    all_records = records(pairs)
    for first in range(0, len(all_records), AT_ONCE):
        decoded = decoder.decode(all_records[first : first + AT_ONCE])
        effects = core.feed(decoded.events, rejected=len(decoded.rejected), next_offset=decoded.next_offset)
        effects += core.apply(ClockMark(partition=0, after_offset=decoded.next_offset, kind=MarkKind.FRESH))
        for effect in effects:
            if isinstance(effect, EmitBatch):
                found |= dict.fromkeys(effect.batch.lineage.offset.tolist(), first)
    return found


def test_a_worker_with_a_target_has_mini_batches_read_in_time_and_a_replay_makes_the_same(
    kafka: str, tmp_path: Path
) -> None:
    pairs = events(8_000, seed=31)
    with town(kafka, "worker-in-time", tmp_path) as place, living(place) as live:
        worker = place.start(batch=STEERED)
        # It compiles whatever it has to for the first mini-batch.
        live.append(pairs[:FIRST])
        deadline = Deadline.after(place.clock, WAIT_MS)
        while not live.read:
            assert not deadline.passed, place.logs()
            live.look()
        live.go_on(pairs)
        alive, end = live.read[1:], len(live.appended_ms)
        place.end(0, end)
        assert place.summary(worker)["ended"]
        ready = could_leave(pairs[:end])
        took_ms = [
            at_ms - min(live.appended_ms[ready[offset]] for offset in batch.lineage.offset.tolist())
            for at_ms, batch in alive
        ]
        assert took_ms
        # Fetching takes time before the worker knows of a sample, and reading takes some afterwards. Where it takes
        # this machine too long at the moment, the worker says so.
        in_time = np.median(took_ms) < TARGET_MS + 500 and max(took_ms) > TARGET_MS / 2
        assert in_time or "the freshness target is missed" in place.logs(), took_ms
        clock = [ClockMark.decode(message.value() or b"") for message in place.read(place.topics.clock, 0)]
        log = Log(records=records(pairs[:end]), clock=clock)
        assert identities(replay(log, STEERED, place.clock.now_ms()).read_batches()) == identities(place.batches(0))
