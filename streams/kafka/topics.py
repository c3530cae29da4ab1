"""The topics of recd: their names, what each must look like, making them and checking them.

Owns every topic setting that a promise depends on. Never changes or deletes a topic that exists: a wrong one
is refused with the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from streams.errors import ConfigError, RetryableError
from streams.kafka.client import MAX_MESSAGE_BYTES
from streams.strict import STRICT

FOREVER: Final = -1
"""Retention that keeps everything."""
_LARGEST: Final = (1 << 63) - 1
_HUNDRED_YEARS_MS: Final = 100 * 365 * 86_400_000
_POLL_MS: Final = 50
_WHY: Final = {
    "cleanup.policy": "records would be lost, or never cleaned up",
    "retention.ms": "records would expire before they are read",
    "retention.bytes": "records would expire before they are read",
    "max.message.bytes": "our largest messages would be refused",
    "delete.retention.ms": "erased users would come back from an old copy",
    "message.timestamp.type": "event times would be overwritten",
    "message.timestamp.before.max.ms": "records with old event times would be refused",
    "message.timestamp.after.max.ms": "records with new event times would be refused",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicsConfig:
    """Names and sizes of the topics. All of them have the same number of partitions."""

    __pydantic_config__: ClassVar = STRICT

    interactions: str = "interactions"
    """Events as they come, keyed by user."""
    outcomes: str | None = None
    """Outcomes as they come, keyed by user, where they have a topic of their own: partition p must hold the users of
    partition p of the interactions."""
    minibatches: str = "minibatches"
    """What the trainer reads: partition p comes from partition p of the interactions."""
    partitions: int = 4
    """Partitions of every topic: the most sessionizer workers that can share the work."""
    replication: int = 1
    """Copies of every partition; 3 where there are three brokers or more."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """Largest message of any topic, as the broker counts it."""
    retention_ms: int = FOREVER
    """How long the broker keeps records, by their own time stamps; -1 for ever. Replays reach no further back."""

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= 10_000:
            raise ConfigError("topics.partitions must lie in 1..10000")
        if self.replication < 1:
            raise ConfigError("topics.replication must be at least 1")
        if self.max_message_bytes < 64 * 1024:
            raise ConfigError("topics.max_message_bytes must be at least 65536")
        if self.retention_ms != FOREVER and self.retention_ms < 1:
            raise ConfigError("topics.retention_ms must be -1 (for ever) or positive")
        if len(set(self.names)) != len(self.names):
            raise ConfigError(
                "topics: two topics have the same name; change topics.interactions, .outcomes or .minibatches"
            )

    @property
    def dead_letter(self) -> str:
        """Records that can never be used, with reason and position."""
        return f"{self.interactions}-dead-letter"

    @property
    def clock(self) -> str:
        """Clock marks: partition p is about partition p of the interactions."""
        return f"{self.interactions}-clock"

    @property
    def cuts(self) -> str:
        """Snapshots of the sessionizer's partitions, compacted."""
        return f"{self.minibatches}-cuts"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Topics that the sessionizer reads, in the order of `Input`."""
        return (self.interactions,) if self.outcomes is None else (self.interactions, self.outcomes)

    @property
    def profiles(self) -> str:
        """Profiles of users, compacted: partition p holds those of partition p of the interactions, by user."""
        return f"{self.minibatches}-profiles"

    @property
    def names(self) -> tuple[str, ...]:
        """All topics."""
        return (*self.inputs, self.minibatches, self.dead_letter, self.clock, self.cuts, self.profiles)

    def settings(self, topic: str) -> dict[str, str]:
        """What `topic` is created with."""
        compacted = topic in {self.cuts, self.profiles}
        # A working copy may be as old as it likes: that a user was erased must still be there to be read.
        kept = {"delete.retention.ms": str(_HUNDRED_YEARS_MS)} if topic == self.profiles else {}
        return kept | {
            "cleanup.policy": "compact" if compacted else "delete",
            "retention.ms": str(FOREVER if compacted else self.retention_ms),
            # Size must not bound what time does not.
            "retention.bytes": str(FOREVER),
            "max.message.bytes": str(self.max_message_bytes),
            "compression.type": "producer",
            # Record times are event times: nothing is too old or too new for the broker to take.
            "message.timestamp.type": "CreateTime",
            "message.timestamp.before.max.ms": str(_LARGEST),
            "message.timestamp.after.max.ms": str(_LARGEST),
        }


def ensure(admin: AdminClient, config: TopicsConfig, *, plain: bool = False, timeout_ms: int = 30_000) -> None:
    """Create the topics that are missing, check those that exist, and return when all partitions have leaders.

    Raises ConfigError that names the topic, the setting and the remedy; RetryableError if Kafka does not answer.
    With `plain` no settings are sent or checked: the in-memory stand-in knows none.
    """
    try:
        _create_missing(admin, config, plain=plain, timeout_ms=timeout_ms)
        if not plain:
            # All of them: one that another process has just made may not have been listed above.
            _check_settings(admin, config, timeout_ms)
    except KafkaException as error:
        raise RetryableError(f"Kafka did not answer while topics were prepared: {error.args[0]}") from error


def _create(admin: AdminClient, config: TopicsConfig, names: list[str], *, plain: bool, timeout_ms: int) -> None:
    if not names:
        return
    wanted = [
        NewTopic(
            name,
            num_partitions=config.partitions,
            replication_factor=config.replication,
            config={} if plain else config.settings(name),
        )
        for name in names
    ]
    for name, future in admin.create_topics(wanted, operation_timeout=timeout_ms / 1000).items():
        try:
            future.result(timeout_ms / 1000)
        except KafkaException as error:
            code = error.args[0].code()
            # Two processes that start together both create; the loser's check follows.
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            if code == KafkaError.INVALID_REPLICATION_FACTOR:
                raise ConfigError(
                    f"topic {name}: topics.replication = {config.replication} needs as many brokers; lower it"
                ) from error
            raise


def _create_missing(admin: AdminClient, config: TopicsConfig, *, plain: bool, timeout_ms: int) -> None:
    """Create what is not listed until all of it is listed with leaders.

    Again and again: for a moment a broker still lists a topic that was deleted, and does not list one that was made.
    """
    for _ in range(max(1, timeout_ms // _POLL_MS)):
        topics = admin.list_topics(timeout=timeout_ms / 1000).topics
        missing = [name for name in config.names if name not in topics]
        _create(admin, config, missing, plain=plain, timeout_ms=timeout_ms)
        found = [topics[name] for name in config.names if name in topics and topics[name].error is None]
        leaders = [partition.leader for topic in found for partition in topic.partitions.values()]
        if len(found) == len(config.names) and leaders and min(leaders) >= 0:
            for topic in found:
                _check_partitions(config, str(topic.topic), len(topic.partitions))
            return
        admin.poll(_POLL_MS / 1000)
    raise RetryableError(f"not every partition of {', '.join(config.names)} has a leader after {timeout_ms} ms")


def _check_partitions(config: TopicsConfig, name: str, partitions: int) -> None:
    if partitions == config.partitions:
        return
    told = f"topic {name} has {partitions} partitions but topics.partitions is {config.partitions}"
    if name not in config.inputs:
        key = "topics.minibatches" if name.startswith(config.minibatches) else "topics.interactions"
        raise ConfigError(
            f"{told}: it was made for an input of {partitions}. Partitions of an input that has been read cannot be "
            f"added, since users would move between them: name a new {key}, and recd makes what belongs to it"
        )
    raise ConfigError(
        f"{told}; users would move between partitions. Before the first start, set topics.partitions = {partitions}. "
        f"If partitions were added since, name a new topic in place of {name}, and a new topics.minibatches; "
        f"`recd route {name}` then fills the new one with what is in this one"
    )


def _check_settings(admin: AdminClient, config: TopicsConfig, timeout_ms: int) -> None:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in config.names]
    for resource, future in admin.describe_configs(resources, request_timeout=timeout_ms / 1000).items():
        found = {name: str(entry.value) for name, entry in future.result(timeout_ms / 1000).items()}
        wrong = wrong_settings(config, resource.name, found)
        if wrong:
            raise ConfigError("\n".join(wrong))


def wrong_settings(config: TopicsConfig, topic: str, found: Mapping[str, str]) -> list[str]:
    """What is wrong with the settings of a topic that exists, each with its remedy. Pure."""
    wanted = config.settings(topic)

    def told(name: str, why: str) -> str:
        remedy = f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {name}"
        return f"topic {topic} has {name}={found.get(name)}: {why}. Run `{remedy}={wanted[name]}`"

    times = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
    wrong = {
        "cleanup.policy": found.get("cleanup.policy") != wanted["cleanup.policy"],
        "retention.ms": _shorter(found.get("retention.ms"), wanted["retention.ms"]),
        "retention.bytes": _shorter(found.get("retention.bytes"), wanted["retention.bytes"]),
        "max.message.bytes": int(found.get("max.message.bytes", 0)) < config.max_message_bytes,
        "message.timestamp.type": found.get("message.timestamp.type") != "CreateTime",
        "delete.retention.ms": int(found.get("delete.retention.ms", 0)) < int(wanted.get("delete.retention.ms", 0)),
        # Brokers before 3.6 do not know these two.
        **{name: name in found and int(found[name]) < int(wanted[name]) for name in times},
    }
    if wanted["cleanup.policy"] == "compact":
        # What compaction keeps does not expire.
        wrong["retention.ms"] = wrong["retention.bytes"] = False
    return [told(name, _WHY[name]) for name, is_wrong in wrong.items() if is_wrong]


def _shorter(found: str | None, wanted: str) -> bool:
    if found is None or int(found) == FOREVER:
        return False
    return int(wanted) == FOREVER or int(found) < int(wanted)
