"""The format of a configuration.

Owns which libraries are loaded: those of the chosen format alone.
"""

from __future__ import annotations

from collections.abc import Callable

from streams.events.formats.config import FormatConfig
from streams.events.formats.json_objects import JsonObjects
from streams.events.formats.schemas import Schemas
from streams.events.messages import Format
from streams.events.schema import EventSchema


def choose(config: FormatConfig, schema: EventSchema, schemas: Callable[[], Schemas]) -> Format:
    """The format of messages of this schema of events; `schemas` opens the registry, if it takes one."""
    match config.name:
        case "json":
            return JsonObjects(schema)
        case "avro":
            from streams.events.formats.avro import AvroPlan
            from streams.events.formats.framed import Framed

            return Framed(schema, schemas(), AvroPlan)
        case "protobuf":
            from streams.events.formats.framed import Framed
            from streams.events.formats.protobuf import ProtobufPlan

            return Framed(schema, schemas(), ProtobufPlan)
        case "arrow":
            from streams.events.formats.arrow import ArrowTables

            return ArrowTables(schema)
