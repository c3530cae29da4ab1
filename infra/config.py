"""The whole configuration of recd: one TOML file made of the parts' own frozen dataclasses.

Owns: which sections there are, what must agree between them, and loading them. Order, highest first: flags
(`--set section.key=value`), environment (`RECD__SECTION__KEY`), file, defaults.
Never: holds a default of a part, which stands beside its owner; reads the environment anywhere but in `load`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import TypeAdapter, ValidationError

from infra.config_errors import located, readable
from infra.config_layers import from_environment, from_file, from_flags, lay
from infra.metrics import MetricsConfig
from sessionizer.config import BatchConfig, JoinConfig, ProfilesConfig, SessionConfig
from sessionizer.worker_config import WorkerConfig
from state.redis import RedisConfig
from streams.errors import ConfigError
from streams.events.formats.config import FormatConfig
from streams.events.outcomes_topic import outcomes_schema
from streams.events.roles import OutcomeRoles, Roles
from streams.events.schema import DenseFeature, EventSchema, FeatureGroup, History, Label, SparseFeature
from streams.inputs import Input
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig
from streams.strict import STRICT
from trainer.checkpoint.config import CheckpointConfig
from trainer.config import ModelConfig, OptimizerConfig, TrainConfig
from trainer.source_config import SourceConfig

DEFAULT_FILE: Final = Path("recd.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """Where a run keeps what is its own."""

    __pydantic_config__: ClassVar = STRICT

    directory: Path = Path(".recd/run")
    """Folder for the resolved configuration, logs and reports; relative to where recd is started."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that can be configured."""

    __pydantic_config__: ClassVar = STRICT

    event: Roles
    """Which of your fields plays which role."""
    outcomes: OutcomeRoles = field(default_factory=OutcomeRoles)
    """What the messages of `topics.outcomes` call otherwise than the interactions; a key that is not set is as in
    [event]."""
    format: FormatConfig = field(default_factory=FormatConfig)
    """How the messages of the interactions, and of the outcomes, are encoded."""
    labels: tuple[Label, ...]
    """What the model predicts: one binary task each."""
    features: tuple[SparseFeature, ...] = ()
    """Sparse features: ids that the event carries."""
    dense: tuple[DenseFeature, ...] = ()
    """Dense features: floats of the event."""
    histories: tuple[History, ...] = ()
    """Sequence features that recd builds from the user's earlier events."""
    groups: tuple[FeatureGroup, ...] = ()
    """Features that change together; one that no group names forms its own."""
    model: ModelConfig
    """The network and its embedding tables."""
    session: SessionConfig = field(default_factory=SessionConfig)
    """When a session ends and how late an event may be."""
    join: JoinConfig = field(default_factory=JoinConfig)
    """How impressions get their labels from outcomes in messages of their own."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    """How sessions are packed into mini-batches."""
    profiles: ProfilesConfig = field(default_factory=ProfilesConfig)
    """Where what is remembered of users is kept."""
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    """The sessionizer's process."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """How the model learns."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How a training run proceeds."""
    source: SourceConfig = field(default_factory=SourceConfig)
    """How the trainer reads mini-batches."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """Where checkpoints go, how often, and how many are kept."""
    kafka: KafkaConfig = field(default_factory=KafkaConfig)
    """Where Kafka is and how to be let in."""
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    """Names and sizes of the topics."""
    redis: RedisConfig = field(default_factory=RedisConfig)
    """Where Redis is."""
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    """Where metrics can be read."""
    run: RunConfig = field(default_factory=RunConfig)
    """Where a run keeps what is its own."""

    def __post_init__(self) -> None:
        self.model.check_against(self.schema)
        if self.topics.outcomes is None:
            self._check_no_outcomes()
        else:
            self._check_outcomes()
        if self.batch.max_bytes > self.topics.max_message_bytes:
            raise ConfigError(
                f"batch.max_bytes = {self.batch.max_bytes} is above topics.max_message_bytes = "
                f"{self.topics.max_message_bytes}, so mini-batches could be refused; lower it, or raise the other"
            )

    def _check_no_outcomes(self) -> None:
        """What is said of a topic of outcomes must have one."""
        outcomes, unsaid = self.outcomes, OutcomeRoles()
        keys = [key.name for key in fields(OutcomeRoles)]
        said = [f"outcomes.{key}" for key in keys if getattr(outcomes, key) != getattr(unsaid, key)]
        said += [] if self.format.outcomes is None else ["format.outcomes"]
        if said:
            raise ConfigError(
                f"{said[0]} is set, but there is no topic of outcomes; name it in topics.outcomes, or remove {said[0]}"
            )

    def _check_outcomes(self) -> None:
        """Outcomes in a topic of their own must find impressions."""
        impression = self.outcomes.impression or self.event.impression
        if impression is None and self.event.join == "impression":
            raise ConfigError(
                "event.impression names no field, but topics.outcomes is set; name the one by which outcomes refer to "
                'their impressions (in outcomes.impression, if only they have it), or set event.join = "user_item"'
            )
        if not outcomes_schema(self.schema).roles.has_outcomes:
            raise ConfigError(
                'topics.outcomes is set, but no value of event.kinds means "outcome"; name one there or in '
                'outcomes.kinds, or set outcomes.kind = "" if no field of that topic tells kinds'
            )
        if self.event.kind is None and self.event.default_kind != "impression":
            raise ConfigError(
                f'event.default_kind is "{self.event.default_kind}", but topics.outcomes is set, and outcomes are '
                'joined to impressions only; set it to "impression", or name the field of the kind in event.kind'
            )

    @cached_property
    def schema(self) -> EventSchema:
        """The meaning of the stream, as sessionizer and trainer see it."""
        return EventSchema(
            roles=self.event,
            labels=self.labels,
            sparse=self.features,
            dense=self.dense,
            histories=self.histories,
            groups=self.groups,
            outcomes=None if self.outcomes == OutcomeRoles() else self.outcomes,
        )

    def roles_of(self, source: Input) -> Roles:
        """What fields of the messages of one input mean."""
        two = source is Input.OUTCOMES and self.topics.outcomes is not None
        return outcomes_schema(self.schema).roles if two else self.event


def load(path: Path | None, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration in `path` under the environment and the flags; ConfigError names every refused key.

    `None` means `recd.toml` where recd is started.
    """
    layers = [from_file(path or DEFAULT_FILE), *from_environment(environ), *from_flags(overrides)]
    merged = lay(layers)
    try:
        return _adapter().validate_python(merged)
    except ValidationError as error:
        raise readable(error, layers, json_schema()) from error
    except ConfigError as error:
        raise located(error, layers, merged) from error


def from_values(values: Mapping[str, Any]) -> Config:
    """A configuration from one plain table, as `load` validates it."""
    try:
        return _adapter().validate_python(dict(values))
    except ValidationError as error:
        raise readable(error, [], json_schema()) from error


def to_values(config: Config) -> dict[str, Any]:
    """The plain table that `from_values` takes, defaults included, None left out (TOML has no word for it)."""
    return dict(_adapter().dump_python(config, mode="json", exclude_none=True))


@cache
def json_schema() -> dict[str, Any]:
    """The configuration as JSON schema: keys, types, defaults, and the docstrings under the fields."""
    return _adapter().json_schema()


@cache
def _adapter() -> TypeAdapter[Config]:
    return TypeAdapter(Config)
