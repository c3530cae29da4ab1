"""Topics filled with a stream, and the configuration of a worker that reads one.

Owns what is configured: everything stands at its default but what the stream needs and what a scenario varies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.sessionizer.arrow_stream import Bundle, bundled
from benchmarks.sessionizer.stream import LISTS, Law, messages
from infra.config import Config, from_values
from infra.config_file import resolved
from streams.clock_mark import ClockMark, MarkKind
from streams.errors import RetryableError
from streams.kafka import client, topics
from streams.kafka.client import KafkaConfig

IDS: Final = ("user", "item", "category", "shop", "city", "device", "page", "hour")
PARTITIONS: Final = 4
BATCH: Final = 4_096
"""Samples of a mini-batch, as in the wire's benchmarks; the default of 256 is for small tables."""
_FLUSH_S: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A topic with a stream and end marks in it."""

    kafka: str
    topic: str
    partitions: int
    law: Law
    num_views: int
    num_events: int
    num_bytes: int
    """Of the values."""
    events_a_message: int = 1


def fill(
    kafka: str, topic: str, law: Law, num_views: int, *, partitions: int = PARTITIONS, events_a_message: int = 1
) -> Filled:
    """Make the topics of that name and send the stream; a user's events go to one partition.

    As JSON; as Arrow where a message has more than one event.
    """
    config = configured(kafka, topic, law, partitions=partitions)
    topics.ensure(client.admin(config.kafka), config.topics)
    producer = client.producer(config.kafka, client_id="bench", extra={"queue.buffering.max.messages": 1_000_000})
    ends, num_events, num_bytes = [0] * partitions, 0, 0
    stream = messages(law, num_views)
    one_by_one = (Bundle(one.user % partitions, one.time_ms, str(one.user).encode(), one.value, 1) for one in stream)
    for one in one_by_one if events_a_message == 1 else bundled(stream, partitions, events_a_message):
        while True:
            try:
                producer.produce(topic, one.value, one.key, one.partition, timestamp=one.time_ms)
                break
            except BufferError:
                producer.poll(0.1)
        ends[one.partition] += 1
        num_events += one.num_events
        num_bytes += len(one.value)
    for partition, end in enumerate(ends):
        mark = ClockMark(partition=partition, after_offset=end, kind=MarkKind.END)
        producer.produce(config.topics.clock, mark.encode(), None, partition)
    if left := producer.flush(_FLUSH_S):
        raise RetryableError(f"{left} messages of topic {topic} were not taken in {_FLUSH_S} s")
    return Filled(
        kafka=kafka,
        topic=topic,
        partitions=partitions,
        law=law,
        num_views=num_views,
        num_events=num_events,
        num_bytes=num_bytes,
        events_a_message=events_a_message,
    )


def configured(
    kafka: str,
    topic: str,
    law: Law,
    *,
    name: str = "first",
    partitions: int = PARTITIONS,
    more: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration of one run; `more` adds to its sections."""
    lists = LISTS if law.lists else ()
    values: dict[str, Any] = {
        "event": {
            "event_id": ["id"],
            "user": "user",
            "item": "item",
            "time": "at",
            "kind": "type",
            "kinds": {"view": "impression", "click": "outcome"},
            "impression": "of",
        },
        "labels": [{"name": "clicked", "field": "type", "rule": "in", "values": ["click"]}],
        "features": [
            *({"name": one, "field": one, "table": one} for one in IDS),
            *({"name": one, "field": one, "table": "item", "list": True} for one in lists),
        ],
        "dense": [{"name": "price", "field": "price"}],
        "histories": [{"name": "clicks", "table": "item", "last": 50, "label": "clicked"}],
        "groups": [{"name": "user_side", "features": ["user", "city", "device"]}],
        "model": {"tables": {one: {"rows": 1_000} for one in IDS}},
        "kafka": {"bootstrap": kafka},
        "topics": {"interactions": topic, "minibatches": f"{topic}-{name}", "partitions": partitions},
        "batch": {"samples": BATCH},
        "worker": {"app": f"{topic}-{name}"},
        "metrics": {"enabled": False},
    }
    if lists:
        values["groups"].append({"name": "lists", "features": list(lists)})
    for section, settings in (more or {}).items():
        values[section] = values.get(section, {}) | settings if isinstance(settings, Mapping) else settings
    return from_values(values)


def written(config: Config, directory: Path) -> Path:
    """The configuration as a file in a directory of its own, where the run keeps what it writes, too."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "recd.toml"
    path.write_text(resolved(config), encoding="utf-8")
    return path


def dropped(config: Config) -> None:
    """Remove what a run has written, so that the broker keeps its pace."""
    mine = [config.topics.minibatches, config.topics.cuts]
    admin = client.admin(config.kafka)  # Must outlive its futures.
    for future in admin.delete_topics(mine, operation_timeout=30).values():
        future.result(30)


def plain(kafka: str) -> KafkaConfig:
    """Kafka as the programs that are compared reach it."""
    return KafkaConfig(bootstrap=kafka)
