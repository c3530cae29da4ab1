"""What a schema registry knows of a schema.

Owns the shape of a registered schema and the protocol by which formats ask for it. Never talks to a registry:
`streams.kafka.registry` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A schema that another one refers to."""

    name: str
    """As the other one calls it: a file name in Protobuf, a full type name in Avro."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A schema under its id."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    """JSON of an Avro schema; a FileDescriptorProto in base64 for Protobuf."""
    parts: Sequence[Part] = ()
    """What it refers to, directly or not; each after those that it refers to itself."""


class Schemas(Protocol):
    """Where schemas are found."""

    def get(self, schema_id: int) -> Registered | None:
        """The schema; None if there is none of this id, for good.

        RetryableError if the registry does not answer, ConfigError if it refuses us.
        """
