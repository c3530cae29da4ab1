"""Which format the messages of each topic of events have: the frozen configuration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from streams.errors import ConfigError
from streams.inputs import Input
from streams.strict import STRICT

FormatName = Literal["json", "avro", "protobuf", "arrow"]
REGISTERED: frozenset[FormatName] = frozenset({"avro", "protobuf"})
"""Formats whose messages name their schema in a registry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatConfig:
    """The format of the interactions, and of the outcomes where they have another one."""

    __pydantic_config__: ClassVar = STRICT

    name: FormatName = "json"
    """json: one object a message. avro, protobuf: one message an event, each naming its schema in `registry`, as the
    serializers of confluent-kafka write them. arrow: one Arrow IPC stream a message, many events in each."""
    outcomes: FormatName | None = None
    """Format of topics.outcomes; without, it is that of the interactions. Both find schemas in the same registry."""
    registry: str = ""
    """Address of the schema registry, such as http://127.0.0.1:8081; several of one registry separated by commas.
    Only with avro and protobuf."""
    registry_user: str = ""
    """User name, where the registry asks for one."""
    registry_password: str = field(default="", repr=False)
    """Password; better given by the environment than in a file."""
    registry_ca_file: str | None = None
    """PEM file with the certificates to trust; without it the system's. Only with https."""
    registry_timeout_ms: int = 5_000
    """A registry that does not answer for so long is tried again after `worker.retry_ms`; meanwhile nothing is read."""

    def __post_init__(self) -> None:
        self._check_need()
        addresses = [address.strip() for address in self.registry.split(",")] if self.registry else []
        wrong = [address for address in addresses if not address.startswith(("http://", "https://"))]
        if wrong:
            raise ConfigError(f"format.registry: {wrong[0]!r} is no address; it begins with http:// or https://")
        if "@" in self.registry:
            raise ConfigError(
                "format.registry holds a user name or password; put them into format.registry_user and "
                "format.registry_password, which are not shown"
            )
        if self.registry_password and not self.registry_user:
            raise ConfigError("format.registry_password is set without format.registry_user; set both")
        if (self.registry_user or self.registry_ca_file) and not self.registry:
            raise ConfigError("format.registry_user or format.registry_ca_file is set without format.registry; set it")
        if self.registry_timeout_ms < 1:
            raise ConfigError("format.registry_timeout_ms must be at least 1")

    def _check_need(self) -> None:
        """A registry must be there exactly where a format asks for one."""
        named = {"format.name": self.name} | ({} if self.outcomes is None else {"format.outcomes": self.outcomes})
        asking = [key for key, name in named.items() if name in REGISTERED]
        if asking and not self.registry.strip():
            raise ConfigError(
                f"{asking[0]} is {named[asking[0]]}, whose messages name a schema by its number; set format.registry "
                "to where schemas are found"
            )
        if not asking and self.registry:
            told = " and ".join(f"{key} is {name}" for key, name in named.items())
            raise ConfigError(f"format.registry is set, but {told}, which needs no registry; remove one of them")

    def of(self, source: Input) -> FormatConfig:
        """The format of one input, as `name`, with the registry if it needs one."""
        name = self.outcomes if source is Input.OUTCOMES and self.outcomes is not None else self.name
        return replace(self, name=name, outcomes=None) if name in REGISTERED else FormatConfig(name=name)
