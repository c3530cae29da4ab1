"""Whether users lie where they are looked for: all of one in one partition, and in the same one of two topics.

Owns a look at the latest keys of each partition; where each belongs, `routing.murmur2` says. Two topics are joined
partition by partition, so a producer with another partitioner would turn its outcomes into orphans without any error:
it is refused, with what to change. One topic may place users as it likes, but not without keys, which tears their
sessions apart: that is warned of. A stray record proves nothing about its producers. Never moves one: `route` does.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from streams.errors import ConfigError, RetryableError
from streams.kafka.client import KafkaConfig, consumer
from streams.kafka.offsets import bounds
from streams.routing.murmur2 import partition_of

_SAMPLE: Final = 50
"""Records of each partition that are looked at."""
_STRAY: Final = 0.1
"""Share of the records that may lie wrong: somebody's by hand, or of a producer that has been mended since."""
_POLL_S: Final = 0.05
_POLLS: Final = 400


def misplaced(topic: str, num_partitions: int, keys: Iterable[tuple[int, bytes | None]]) -> str | None:
    """What is wrong with the keys of a topic, by (partition, key), and what to do; None if nothing is. Pure."""
    found, seen = Counter[str](), 0
    for partition, key in keys:
        seen += 1
        if key is None:
            found["none"] += 1
        elif partition_of(key, num_partitions) != partition:
            found["crc32" if zlib.crc32(key) % num_partitions == partition else "other"] += 1
    wrong = sum(found.values())
    if wrong <= _STRAY * seen:
        return None
    if found["none"] == wrong:
        return f"{wrong} of the latest {seen} records of {topic} have no key; key them by the user"
    told = f"{wrong} of the latest {seen} records of {topic} are not in the partition that murmur2 gives their key"
    if found["crc32"] == wrong:
        return (
            f"{told}, but where librdkafka puts it unless told otherwise; set partitioner=murmur2_random in its "
            "producers (confluent-kafka, Go, Node, .NET), and write the topic anew"
        )
    return f"{told}; give its producers Kafka's default partitioner (murmur2), and write the topic anew"


def torn(topic: str, keys: Iterable[tuple[int, bytes | None]]) -> str | None:
    """What is wrong with a topic that may place its users as it likes; None if nothing is. Pure."""
    each = [key is None for _, key in keys]
    if sum(each) <= _STRAY * len(each):
        return None
    return (
        f"{sum(each)} of the latest {len(each)} records of {topic} have no key: the events of one user lie in several "
        "partitions, each of which makes sessions of its own of them; key them by the user, or let "
        f"`recd route {topic}` write them anew"
    )


def find_torn(config: KafkaConfig, topic: str, num_partitions: int) -> str | None:
    """`torn` of the latest records of a topic with more than one partition."""
    if num_partitions == 1:
        return None
    reader = consumer(config, group="recd-placement", partition_eof=True)
    try:
        return torn(topic, _latest(reader, topic, num_partitions))
    finally:
        reader.close()


def check(config: KafkaConfig, topics: Sequence[str], num_partitions: int) -> None:
    """Raise ConfigError if the latest keys of a topic are not where they belong; a topic without records passes."""
    reader = consumer(config, group="recd-placement", partition_eof=True)
    try:
        wrong = [misplaced(topic, num_partitions, _latest(reader, topic, num_partitions)) for topic in topics]
    finally:
        reader.close()
    told = [(topic, each) for topic, each in zip(topics, wrong, strict=True) if each is not None]
    if told:
        raise ConfigError(
            "outcomes would not find their impressions, because the two topics place users differently: "
            + "; ".join(each for _, each in told)
            + ". Where the producers are not yours to change, `recd route` writes such a topic anew, each user where "
            f"it belongs: name a new topic in place of {told[0][0]}, then run `recd route {told[0][0]}` (with "
            "--outcomes, if it holds the outcomes)"
        )


def _latest(reader: Consumer, topic: str, num_partitions: int) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    places = bounds(reader, topic, range(num_partitions))
    waiting = {partition for partition, each in places.items() if each.start < each.end}
    starts = [TopicPartition(topic, p, max(places[p].start, places[p].end - _SAMPLE)) for p in sorted(waiting)]
    if not starts:
        return found
    reader.assign(starts)
    for _ in range(_POLLS):
        for message in reader.consume(_SAMPLE, _POLL_S):
            partition, error = message.partition(), message.error()
            if error is None and partition in waiting:
                found.append((partition, message.key()))
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own code)
                waiting.discard(partition or 0)
        if not waiting:
            return found
    raise RetryableError(
        f"the latest records of {topic} could not be read; partitions {sorted(waiting)} did not answer"
    )
