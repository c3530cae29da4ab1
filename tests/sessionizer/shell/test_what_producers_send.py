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


def test_what_a_record_s_own_time_and_key_say_is_never_taken_for_the_event_s(kafka: str, tmp_path: Path) -> None:
    # A client of long ago writes -1, others what they like; the key is for whoever chose the partition.
    some = [(b"\x85\x00\xff", value) for _, value in events(400, seed=53)]
    with town(kafka, "worker-record-times", tmp_path) as place:
        producer = client.producer(place.kafka, client_id="odd")
        for at, (key, value) in enumerate(some):
            producer.produce(place.topics.interactions, value, key, 0, timestamp=(1, 2, 4_000_000_000_000)[at % 3])
        producer.produce(place.topics.interactions, None, b"\x85\x00\xff", 0, timestamp=2)
        assert producer.flush(60) == 0
        place.end(0, len(some) + 1)
        assert place.summary(place.start())["ended"]
        expected, _ = reference(records(some))
        assert identities(place.batches(0)) == identities(expected)
        letters = place.read(place.topics.dead_letter, 0)
        assert (letters[-1].key(), letters[-1].value()) == (b"\x85\x00\xff", None)
        assert len(letters) == len(some) // 97 + 1
