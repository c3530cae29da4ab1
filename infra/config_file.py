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
from infra.config_layers import TomlValue

WIDTH: Final = 110
RESOLVED_NAME: Final = "resolved.toml"
_SECRET_KEY = re.compile(r"password|secret|token|credential|basic_auth")
_URL_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@/\s]+@")
_MASK: Final = "********"
_HEAD: Final = """\
Configuration of recd. A key behind a bare # is not set; what stands there is its default.
Order, highest first: flags (--set section.key=value), environment (RECD__SECTION__KEY), this file, defaults."""


def commented(values: Mapping[str, Any]) -> str:
    """The file for a configuration that sets `values`: those stand there, every other key is a commented default."""
    known = json_schema()
    lines = [*_comment(_HEAD)]
    for name, node in known["properties"].items():
        lines += _section(name, node, known, values.get(name))
    return "\n".join(lines) + "\n"


def resolved(config: Config) -> str:
    """Every value in force, as TOML; secrets are masked."""
    lines = ["# The configuration in force, defaults included. Secrets are masked."]
    for name, value in masked(to_values(config)).items():
        lines += ["", *_table(name, value)] if value else []
    return "\n".join(lines) + "\n"


def save_resolved(config: Config, directory: Path) -> Path:
    """Keep the resolved configuration with the run."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / RESOLVED_NAME
    path.write_text(resolved(config), encoding="utf-8")
    return path


def masked(value: TomlValue, key: str = "") -> TomlValue:
    """The same value with passwords and the like replaced, in URLs too."""
    if isinstance(value, Mapping):
        return {name: masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [masked(item, key) for item in value]
    if isinstance(value, str) and value:
        return _MASK if _SECRET_KEY.search(key) else _URL_PASSWORD.sub(rf"\1:{_MASK}@", value)
    return value


def toml_value(value: TomlValue) -> str:
    """One value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {toml_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:_}"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)


def _table(name: str, value: TomlValue) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
        below = {key: held for key, held in item.items() if isinstance(held, Mapping) and held}
        yield from (f"{_key(key)} = {toml_value(held)}" for key, held in item.items() if key not in below)
        for key, held in below.items():
            yield from _table(f"{name}.{_key(key)}", held)


def _section(name: str, node: Mapping[str, Any], known: Mapping[str, Any], given: TomlValue) -> Iterator[str]:
    """One section; tables below it follow its own keys."""
    listed, mapped = node.get("items"), node.get("additionalProperties")
    below = _resolve(listed or mapped or node, known)
    yield ""
    yield from _comment(str(node.get("description") or below["description"]))
    if listed:
        entries = [(f"[[{name}]]", name, values) for values in given or []] or [(f"#[[{name}]]", name, None)]
    elif mapped:
        names = [(f"{name}.{_key(key)}", values) for key, values in (given or {}).items()]
        entries = [(f"[{each}]", each, values) for each, values in names] or [(f"#[{name}.NAME]", name, None)]
    else:
        entries = [(f"[{name}]", name, given or {})]
    for number, (title, path, values) in enumerate(entries):
        yield from ("",) if number else ()
        yield title
        yield from _keys(path, below, known, values or {}, described=number == 0)


def _keys(
    path: str, node: Mapping[str, Any], known: Mapping[str, Any], given: Mapping[str, Any], *, described: bool
) -> Iterator[str]:
    tables = {key: field for key, field in node["properties"].items() if _is_table(field, known)}
    for key, field in node["properties"].items():
        if key in tables:
            continue
        if described:
            unset = " Not set by default." if field.get("default", "") is None else ""
            yield from _comment(f"{field.get('description', '')}{unset}")
        if key in given:
            yield f"{_key(key)} = {toml_value(given[key])}"
        elif described:
            yield f"#{_key(key)} = {toml_value(_pattern(field))}"
    for key, field in tables.items():
        yield from _section(f"{path}.{_key(key)}", field, known, given.get(key))


def _is_table(field: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether a key is a table, or a list or mapping of tables, with keys of its own."""
    below = field.get("items") or field.get("additionalProperties") or field
    return isinstance(below, Mapping) and "properties" in _resolve(below, known)


def _pattern(field: Mapping[str, Any]) -> TomlValue:
    """The default, or an empty value of the right type where there is none."""
    if field.get("default") is not None:
        return field["default"]
    kind = next(
        (option.get("type") for option in field.get("anyOf", []) if option.get("type") != "null"), field.get("type")
    )
    return {"array": [], "object": {}, "integer": 0, "number": 0.0, "boolean": False}.get(str(kind), "")


def _comment(text: str) -> Iterator[str]:
    for paragraph in text.splitlines():
        yield from (f"# {line}" for line in textwrap.wrap(paragraph, WIDTH))


def _resolve(node: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    return known["$defs"][str(node["$ref"]).rpartition("/")[2]] if "$ref" in node else node


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
