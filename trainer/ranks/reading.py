"""A rank's own partitions of the mini-batch topic. Owns no rule of reading: that is `source`."""

from __future__ import annotations

from dataclasses import dataclass

from trainer import topic as topics
from trainer.buffer import Buffer
from trainer.build import Around, open_topic, source_of
from trainer.ledger import Positions, TopicIdentity
from trainer.ranks.local import Reading
from trainer.ranks.place import Place
from trainer.run_config import Switches, TrainerConfig
from trainer.source import Commits, Source


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Opened:
    """What a rank reads from."""

    topic: TopicIdentity
    reading: Reading
    buffer: Buffer


class OwnPartitions:
    """A `Reading` of Kafka."""

    def __init__(self, source: Source, commits: Commits, place: Place) -> None:
        self._source = source
        self._commits = commits
        self._place = place

    def start(self) -> None:
        self._source.start()

    def stop(self) -> None:
        self._source.stop()

    def commit(self, next_offsets: dict[int, int]) -> None:
        self._source.commit({number: at for number, at in next_offsets.items() if self._place.owns(number)})

    @property
    def duplicates(self) -> int:
        return self._source.duplicates

    @property
    def commit_failures(self) -> int:
        return self._commits.failures


def open_own(
    config: TrainerConfig,
    place: Place,
    expected: TopicIdentity | None,
    positions: Positions,
    around: Around,
    switches: Switches,
) -> Opened:
    """The partitions of this rank, from these positions on. `expected`: the topic that the positions are of."""
    reader, topic, commits = open_topic(config, around, switches)
    if expected is not None:
        topics.check_same(expected, topic)
    starts = topics.starts(reader, topic, positions)
    own = {number: begin for number, begin in starts.items() if place.owns(number)}
    source, buffer = source_of(config, reader, topic, commits, own, around.clock.now_ms, switches)
    return Opened(topic=topic, reading=OwnPartitions(source, commits, place), buffer=buffer)
