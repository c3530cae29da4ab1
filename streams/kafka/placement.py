"""Whether the users of two topics lie in the same partitions.

Owns where a key belongs (murmur2, as Java's clients and all our producers place it) and a look at the latest keys of
each partition. Two topics are joined partition by partition, so a producer with another partitioner would turn its
outcomes into orphans without any error: it is refused, with what to change. Never moves a record.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from streams.errors import ConfigError, RetryableError
from streams.kafka.client import KafkaConfig, consumer
from streams.kafka.offsets import bounds

_SAMPLE: Final = 50
"""Records of each partition that are looked at."""
_POLL_S: Final = 0.2
_POLLS: Final = 100
_MASK: Final = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """As Kafka's own clients hash keys: 32 bits, unsigned."""
    m, length = 0x5BD1E995, len(key)
    h = (0x9747B28C ^ length) & _MASK
    for at in range(0, length - length % 4, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & _MASK
        k = (k ^ (k >> 24)) * m & _MASK
        h = (h * m & _MASK) ^ k
    if rest := key[length - length % 4 :]:
        h = (h ^ int.from_bytes(rest, "little")) * m & _MASK
    h = (h ^ (h >> 13)) * m & _MASK
    return h ^ (h >> 15)


def partition_of(key: bytes, num_partitions: int) -> int:
    """Where a key belongs."""
    return (murmur2(key) & 0x7FFFFFFF) % num_partitions


def misplaced(topic: str, num_partitions: int, keys: Iterable[tuple[int, bytes | None]]) -> str | None:
    """What is wrong with the keys of a topic, by (partition, key), and what to do; None if nothing is. Pure."""
    found = Counter[str]()
    for partition, key in keys:
        if key is None:
            found["none"] += 1
        elif partition_of(key, num_partitions) != partition:
            found["crc32" if zlib.crc32(key) % num_partitions == partition else "other"] += 1
    wrong = sum(found.values())
    if not wrong:
        return None
    if found["none"]:
        return f"{found['none']} of the latest records of {topic} have no key; key them by the user"
    told = f"{wrong} of the latest records of {topic} are not in the partition that murmur2 gives their key"
    if found["crc32"] == wrong:
        return (
            f"{told}, but where librdkafka puts it unless told otherwise; set partitioner=murmur2_random in its "
            "producers (confluent-kafka, Go, Node, .NET), and write the topic anew"
        )
    return f"{told}; give its producers Kafka's default partitioner (murmur2), and write the topic anew"


def check(config: KafkaConfig, topics: Iterable[str], num_partitions: int) -> None:
    """Raise ConfigError if the latest keys of a topic are not where they belong; a topic without records passes."""
    reader = consumer(config, group="recd-placement", partition_eof=True)
    try:
        wrong = [misplaced(topic, num_partitions, _latest(reader, topic, num_partitions)) for topic in topics]
    finally:
        reader.close()
    told = [each for each in wrong if each is not None]
    if told:
        raise ConfigError(
            "outcomes would not find their impressions, because the two topics place users differently: "
            + "; ".join(told)
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
