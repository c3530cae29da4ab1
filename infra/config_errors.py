"""What a refused configuration looks like to a person: the key, the value, where it came from, and the fix.

Owns: turning validation errors into lines, with near misses for unknown keys.
Never: decides what is valid.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from infra.config_layers import Layer, Loc, Table, find
from streams.errors import ConfigError

_DOTTED = re.compile(r"\b[a-z_]+(?:\.[a-z0-9_]+)+")


def readable(error: ValidationError, layers: Sequence[Layer], known: dict[str, Any]) -> ConfigError:
    """One line a problem. `known` is the configuration's JSON schema, for suggestions."""
    lines = [_line(detail, layers, known) for detail in error.errors(include_url=False)]
    count = f"{len(lines)} problems in the configuration:\n  " if len(lines) > 1 else ""
    return ConfigError(count + "\n  ".join(lines))


def located(error: ConfigError, layers: Sequence[Layer], merged: Table) -> ConfigError:
    """The same error, with the value of each key it names and the place that value came from."""
    notes = []
    for dotted in dict.fromkeys(_DOTTED.findall(str(error))):
        loc = tuple(dotted.split("."))
        value = find(merged, loc)
        if value is not None and not isinstance(value, dict):
            notes.append(f"{dotted} is {value!r}, from {_source(loc, layers)}")
    return ConfigError(f"{error} ({'; '.join(notes)})" if notes else str(error))


def dotted_name(loc: Loc) -> str:
    """`labels[0].rule`, as a person writes it."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in loc)
    return text.removeprefix(".") or "configuration"


def _line(detail: ErrorDetails, layers: Sequence[Layer], known: dict[str, Any]) -> str:
    loc = detail["loc"]
    name = dotted_name(loc)
    kind = detail["type"]
    if kind == "missing":
        meaning = _described(known, loc)
        return f"{name} is missing; set it in the file{f': {meaning}' if meaning else ''}"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        near = difflib.get_close_matches(str(loc[-1]), keys := list(_siblings(known, loc[:-1])), n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(keys)}"
        return f"{name} is no key of recd (from {_source(loc, layers)}); {hint}"
    fix = detail["msg"][0].lower() + detail["msg"][1:]
    if kind == "tuple_type":
        fix = 'input should be a list, such as ["one"]'  # TOML knows no tuples.
    meaning = _described(known, loc)
    return f"{name} = {detail['input']!r} (from {_source(loc, layers)}): {fix}{f'. {meaning}' if meaning else ''}"


def _source(loc: Loc, layers: Sequence[Layer]) -> str:
    for layer in reversed(layers):
        if layer.holds(loc):
            return layer.source
    return "the defaults"


def _siblings(known: dict[str, Any], loc: Loc) -> Iterator[str]:
    for node in _nodes(known, loc):
        yield from node.get("properties", {})


def _described(known: dict[str, Any], loc: Loc) -> str:
    for node in _nodes(known, loc[:-1]):
        field = node.get("properties", {}).get(loc[-1] if loc else "", {})
        if "description" in field:
            return str(field["description"]).splitlines()[0]
    return ""


def _nodes(known: dict[str, Any], loc: Loc) -> list[dict[str, Any]]:
    """The schema nodes that describe the table at `loc`; a union has several."""
    nodes = _resolve(known, known)
    for key in loc:
        step: list[dict[str, Any]] = []
        for node in nodes:
            below = node.get("items") if isinstance(key, int) else node.get("properties", {}).get(key)
            below = below or node.get("additionalProperties")
            if isinstance(below, dict):
                step += _resolve(below, known)
        nodes = step or nodes  # A tag of a union in the path describes no level of its own.
    return nodes


def _resolve(node: dict[str, Any], known: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in node:
        return _resolve(known["$defs"][str(node["$ref"]).rpartition("/")[2]], known)
    options = node.get("anyOf", []) + node.get("oneOf", []) + node.get("allOf", [])
    return [found for option in options for found in _resolve(option, known)] if options else [node]
