"""A worker reads what producers in the wild write: every codec, and a bad record where nothing follows it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from confluent_kafka import TopicPartition

from streams.kafka import client
from streams.kafka.client import Compression
from tests.sessionizer.shell.town import Town, town
from tests.sessionizer.shell.world import events, identities, records, reference


def committed(place: Town) -> int:
    """What the group's offset of partition 0 tells observers."""
    observer = client.consumer(place.kafka, group=f"{place.topics.minibatches}-app")
    try:
        (found,) = observer.committed([TopicPartition(place.topics.interactions, 0)], timeout=10)
        return found.offset
    finally:
        observer.close()


def test_events_are_read_whatever_codec_each_producer_used(kafka: str, tmp_path: Path) -> None:
    some = events(1_000, seed=51)
    codecs: tuple[Compression, ...] = get_args(Compression)
    with town(kafka, "worker-codecs", tmp_path) as place:
        share = len(some) // len(codecs)
        for at, codec in enumerate(codecs):
            producer = client.producer(place.kafka, client_id=codec, compression=codec)
            for key, value in some[at * share : (at + 1) * share]:
                producer.produce(place.topics.interactions, value, key, 0)
            assert producer.flush(60) == 0
        place.end(0, len(some))
        assert place.summary(place.start())["ended"]
        expected, _ = reference(records(some))
        assert identities(place.batches(0)) == identities(expected)


def test_a_bad_record_that_is_the_last_one_is_passed_for_good(kafka: str, tmp_path: Path) -> None:
    some = [*events(50, seed=52), (b"1", b"{")]
    with town(kafka, "worker-bad-last", tmp_path) as place:
        place.produce(0, some)
        place.end(0, len(some))
        for _ in range(2):
            assert place.summary(place.start())["ended"]
            assert len(place.read(place.topics.dead_letter, 0)) == 1
            assert committed(place) == len(some)
