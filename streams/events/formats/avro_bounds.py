"""What a schema lets a few bytes do: recurse without end, or repeat nothing without end.

Owns two questions about a parsed Avro schema. fastavro's compiled reader follows a message's nesting on the C stack,
and its lists as far as the message says; a message that lies must cost a dead letter, not the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Any
"""A schema as fastavro parsed it: a name, a list of branches, or a dict."""


def is_recursive(schema: Schema, named: Mapping[str, Schema], above: frozenset[str] = frozenset()) -> bool:
    """Whether a value may hold a value of its own type, so that the message alone says how deep it goes."""
    if isinstance(schema, str) and schema in named:
        return schema in above or is_recursive(named[schema], named, above)
    if isinstance(schema, dict) and "name" in schema:
        if schema["name"] in above:
            return True
        above |= {schema["name"]}
    return any(is_recursive(part, named, above) for part in _parts(schema))


def repeats_nothing(schema: Schema, named: Mapping[str, Schema]) -> bool:
    """Whether it has an array whose items take no bytes."""
    # Named types are looked at where they are defined.
    if isinstance(schema, dict) and schema.get("type") == "array" and _is_empty(schema["items"], named):
        return True
    return any(repeats_nothing(part, named) for part in _parts(schema))


def _is_empty(schema: Schema, named: Mapping[str, Schema], above: frozenset[str] = frozenset()) -> bool:
    if isinstance(schema, str):
        if schema not in named:
            return schema == "null"
        # A value that must hold one of its own type ends nowhere: it has no bytes to begin with.
        return schema in above or _is_empty(named[schema], named, above | {schema})
    if isinstance(schema, dict):
        match schema["type"]:
            case "record" | "error":
                inside = above | {schema["name"]}
                return all(_is_empty(field["type"], named, inside) for field in schema["fields"])
            case "fixed":
                return bool(schema["size"] == 0)
            case "null":
                return True
    return False


def _parts(schema: Schema) -> Iterator[Schema]:
    if isinstance(schema, list):
        yield from schema
    elif isinstance(schema, dict):
        for key in ("items", "values"):
            if key in schema:
                yield schema[key]
        for field in schema.get("fields", ()):
            yield field["type"]
