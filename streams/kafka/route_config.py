"""One route: what is read, where it goes, how often that becomes visible; and what would be wrong from the start."""

from __future__ import annotations

from dataclasses import dataclass

from streams.errors import ConfigError
from streams.events.formats.config import FormatConfig
from streams.events.roles import Roles
from streams.inputs import Input
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteConfig:
    """From one topic to one input."""

    kafka: KafkaConfig
    topics: TopicsConfig
    roles: Roles
    format: FormatConfig
    source: str
    """The topic that is read."""
    target: Input = Input.INTERACTIONS
    app: str
    """Begins the name of the route."""
    commit_every_ms: int
    """What was routed becomes visible at least this often."""
    max_transaction_bytes: int
    """A transaction with this much in it is committed early."""
    retry_ms: int
    """Pause before everything is opened anew after Kafka failed."""
    until_end: bool = False
    """Stop at the end that the topic has at the start. What fails then ends the run; otherwise it is tried again."""
    from_start: bool = False
    """Forget what was routed before."""

    def __post_init__(self) -> None:
        if self.kafka.plain:
            raise ConfigError("recd route needs transactions, which the in-memory stand-in has not; use a real Kafka")
        if self.target is Input.OUTCOMES and self.topics.outcomes is None:
            raise ConfigError("--outcomes needs a topic to route to; set topics.outcomes")
        if self.source == self.target_topic:
            raise ConfigError(
                f"{self.source} would be routed into itself, for ever; to give it other partitions, name a new topic "
                f"in topics.{self.target.name.lower()}: it is made with topics.partitions partitions"
            )
        if self.source in self.topics.names:
            raise ConfigError(
                f"{self.source} is a topic of this configuration itself; name the one that producers fill"
            )

    @property
    def target_topic(self) -> str:
        """The topic that is written."""
        return self.topics.inputs[self.target]

    @property
    def name(self) -> str:
        """Consumer group and transactional id: one process alone may have it."""
        return f"{self.app}-route-{self.source}-to-{self.target_topic}"
