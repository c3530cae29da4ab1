"""Whether the users of two topics lie in the same partitions.

Owns a look at the latest keys of each partition; where each belongs, `routing.murmur2` says. Two topics are joined
partition by partition, so a producer with another partitioner would turn its outcomes into orphans without any error:
it is refused, with what to change. Never moves a record: `route` does.
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
_POLL_S: Final = 0.05
_POLLS: Final = 400


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
