"""Configuration as a commented TOML file.

Owns: writing `recd.toml` from the dataclasses' own docstrings and defaults, so that it can never go stale, and the
resolved configuration that is saved with a run, secrets masked.
Never: keeps a second copy of a description or a default.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from infra.config import Config, json_schema, to_values

WIDTH: Final = 110
RESOLVED_NAME: Final = "resolved.toml"
_SECRET_KEY = re.compile(r"password|secret|token|credential|basic_auth")
_URL_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@/\s]+@")
_MASK: Final = "********"
_HEAD: Final = """\
Configuration of recd. A value that is commented out is the default.
Order, highest first: flags (--set section.key=value), environment (RECD__SECTION__KEY), this file, defaults."""


def commented(values: Mapping[str, Any]) -> str:
    """The file for a configuration that sets `values`: those stand there, every other key is a commented default."""
    known = json_schema()
    lines = [*_comment(_HEAD)]
    for name, node in known["properties"].items():
        lines += ["", *_section(name, node, known, values.get(name))]
    return "\n".join(lines) + "\n"


def resolved(config: Config) -> str:
    """Every value in force, as TOML; secrets are masked."""
    lines = ["# The configuration in force, defaults included. Secrets are masked."]
    for name, value in masked(to_values(config)).items():
        lines += ["", *_table(name, value)]
    return "\n".join(lines) + "\n"


def save_resolved(config: Config, directory: Path) -> Path:
    """Keep the resolved configuration with the run."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / RESOLVED_NAME
    path.write_text(resolved(config), encoding="utf-8")
    return path


def masked(value: Any, key: str = "") -> Any:
    """The same value with passwords and the like replaced, in URLs too."""
    if isinstance(value, Mapping):
        return {name: masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [masked(item, key) for item in value]
    if isinstance(value, str) and value:
        return _MASK if _SECRET_KEY.search(key) else _URL_PASSWORD.sub(rf"\1:{_MASK}@", value)
    return value


def toml_value(value: Any) -> str:
    """One value on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {toml_value(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:_}"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)


def _table(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for item in value:
            yield f"[[{name}]]"
            yield from (f"{_key(key)} = {toml_value(below)}" for key, below in item.items())
    elif isinstance(value, Mapping):
        yield f"[{name}]"
        yield from (f"{_key(key)} = {toml_value(below)}" for key, below in value.items())
    else:
        yield f"{name} = {toml_value(value)}"


def _section(name: str, node: Mapping[str, Any], known: Mapping[str, Any], given: Any) -> Iterator[str]:
    yield from _comment(str(node.get("description", "")))
    if "items" in node:
        yield from _entries(f"[[{name}]]", _resolve(node["items"], known), given or [])
    elif isinstance(node.get("additionalProperties"), Mapping):
        below = _resolve(node["additionalProperties"], known)
        for key, values in (given or {}).items():
            yield from _entries(f"[{name}.{_key(key)}]", below, [values])
        if not given:
            yield from _entries(f"[{name}.NAME]", below, [])
    else:
        yield f"[{name}]"
        yield from _keys(_resolve(node, known), given or {}, described=True)


def _entries(title: str, node: Mapping[str, Any], given: list[Mapping[str, Any]]) -> Iterator[str]:
    """A list of tables: described once, at its first entry; without entries a commented pattern of one."""
    if not given:
        yield f"# {title}"
        yield from (line if line.startswith("#") else f"# {line}" for line in _keys(node, {}, described=True))
    for number, values in enumerate(given):
        yield title
        yield from _keys(node, values, described=number == 0)


def _keys(node: Mapping[str, Any], given: Mapping[str, Any], *, described: bool) -> Iterator[str]:
    for key, field in node["properties"].items():
        if described and field.get("description"):
            yield from _comment(field["description"])
        if key in given:
            yield f"{_key(key)} = {toml_value(given[key])}"
        elif described and field.get("default") is not None:
            yield f"# {_key(key)} = {toml_value(field['default'])}"
        elif described:
            yield f"# {_key(key)} ="


def _comment(text: str) -> Iterator[str]:
    for paragraph in text.splitlines():
        yield from (f"## {line}" for line in textwrap.wrap(paragraph, WIDTH))


def _resolve(node: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    return known["$defs"][str(node["$ref"]).rpartition("/")[2]] if "$ref" in node else node


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
