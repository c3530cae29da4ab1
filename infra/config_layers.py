"""The layers a configuration is made of, and how they lie on top of each other.

Owns: reading the file, the environment and the flags into plain tables, laying them over each other, and remembering
which layer a value came from. Order, highest first: flags (`--set section.key=value`), environment
(`RECD__SECTION__KEY`), file, defaults.
Never: knows what a key means; `infra.config` validates.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streams.errors import ConfigError

ENV_PREFIX: Final = "RECD__"
TomlValue = Any
"""A value as TOML holds it: what it may be is the validation's question."""
Table = dict[str, TomlValue]
Loc = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """Values from one place."""

    source: str
    """How an error names the place: `recd.toml`, `RECD__KAFKA__BOOTSTRAP`, `--set`."""
    values: Table

    def holds(self, loc: Loc) -> bool:
        """Whether this layer says anything about the key at `loc`."""
        return find(self.values, loc) is not None


def from_file(path: Path) -> Layer:
    """The TOML file, or ConfigError with the line that is broken."""
    try:
        return Layer(str(path), tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {path}; `recd init` writes one, or name another with --config") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}; strings need quotes, and each key stands once") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def from_environment(environ: Mapping[str, str]) -> list[Layer]:
    """One layer a variable, in the order of their names."""
    layers = []
    for name in sorted(environ):
        if name.startswith(ENV_PREFIX):
            keys = name.removeprefix(ENV_PREFIX).lower().split("__")
            layers.append(Layer(name, _nest(keys, _value(environ[name], name))))
    return layers


def from_flags(overrides: Sequence[str]) -> list[Layer]:
    """One layer for each `section.key=value`, in the order given."""
    layers = []
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {text}: write it as section.key=value, such as --set session.gap_ms=60000")
        layers.append(Layer(f"--set {key}", _nest(key.strip().split("."), _value(value.strip(), f"--set {key}"))))
    return layers


def lay(layers: Sequence[Layer]) -> Table:
    """All layers in one table; a later layer wins key by key, a list wins whole."""
    merged: Table = {}
    for layer in layers:
        _lay_over(merged, layer.values, ())
    return merged


def find(values: TomlValue, loc: Loc) -> TomlValue:
    """What stands at `loc`, None if nothing does."""
    for key in loc:
        in_table = isinstance(values, Mapping) and key in values
        in_list = isinstance(values, list) and isinstance(key, int) and key < len(values)
        if not (in_table or in_list):
            return None
        values = values[key]
    return values


def _lay_over(below: TomlValue, above: Table, path: Loc) -> None:
    for name, value in above.items():
        key: TomlValue = _entry(below, name, path) if isinstance(below, list) else name
        held = below[key] if isinstance(below, list) else below.get(key)
        if isinstance(value, dict) and isinstance(held, dict | list):
            _lay_over(held, value, (*path, key))
        else:
            below[key] = _copy(value)


def _entry(below: list[TomlValue], name: str, path: Loc) -> int:
    """`labels.0.threshold`: the number of an entry that a lower layer holds."""
    if name.isdigit() and int(name) < len(below):
        return int(name)
    dotted = ".".join(map(str, path))
    raise ConfigError(f"{dotted}.{name}: {dotted} is a list of {len(below)}; entries count from 0")


def _copy(value: TomlValue) -> TomlValue:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _nest(keys: Sequence[str], value: TomlValue) -> Table:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def _value(text: str, source: str) -> TomlValue:
    """Lists, tables and quoted strings as TOML; anything else as it stands, for validation to convert."""
    if not text.startswith(("[", "{", '"', "'")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f'{source}: {text} is not a TOML value: {error}; a list is written ["a", "b"]') from error
