"""Which topic a name stands for now: a topic that is deleted and made again keeps its name, not its id.

Owns the one question to the broker. Never judges: who remembers an id compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from streams.kafka.client import KafkaConfig, admin

_CALL_S = 10.0


def topic_ids(config: KafkaConfig, names: Iterable[str]) -> dict[str, str]:
    """Name to id. Left out: topics that do not exist, and those that we have no right to describe.

    Empty for a plain broker, which has no ids.
    """
    if config.plain:
        return {}
    # Held in a name: an admin client that is let go takes its unanswered requests with it.
    asking = admin(config)
    futures: Mapping[str, Any] = asking.describe_topics(TopicCollection(list(names)), request_timeout=_CALL_S)
    found = {}
    for name, future in futures.items():
        try:
            found[name] = str(future.result().topic_id)
        except KafkaException:
            continue
    return found
