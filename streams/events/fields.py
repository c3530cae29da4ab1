"""The fields of a message that a schema asks for, as one generated type that msgspec decodes in C.

Owns which fields are read, dots into nested objects, and the columns they come out as. All other fields are
skipped without being decoded; a field that is missing or null comes out as None. Never judges a value.

Messages are decoded one at a time: joining a poll into one array was measured to be slower (1.4 against
0.85 µs for 14 fields), and an array can be fooled by a message that is itself two elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from streams.errors import ConfigError
from streams.events.ids import Scalar
from streams.events.schema import EventSchema

_EMPTY: Final = msgspec.Raw()


class Fields:
    """Reads some fields of every message. Immutable."""

    @classmethod
    def of(cls, schema: EventSchema) -> Fields:
        """All fields that the schema gives a meaning."""
        return cls(*names_of(schema))

    def __init__(self, scalars: Sequence[str], lists: Sequence[str] = ()) -> None:
        """Names may repeat; `scalars` hold one value each, `lists` a list."""
        tree = planted(scalars, lists)
        self._paths = {name: _path(tree, name) for name in (*scalars, *lists)}
        self._type = _struct("Message", tree)
        self._decoder = msgspec.json.Decoder(self._type)

    def parse(self, values: Iterable[bytes]) -> list[msgspec.Struct]:
        """The messages. Raises msgspec.DecodeError or RecursionError if one of them is broken."""
        return list(map(self._decoder.decode, values))

    def scalars(self, messages: Sequence[msgspec.Struct], name: str) -> list[Scalar]:
        """One value a message; None where it is missing."""
        return self._column(messages, name, None)

    def raw_lists(self, messages: Sequence[msgspec.Struct], name: str) -> list[msgspec.Raw]:
        """The undecoded bytes of the field, one a message; none where it is missing."""
        return self._column(messages, name, _EMPTY)

    def _column(self, messages: Sequence[msgspec.Struct], name: str, missing: Any) -> list[Any]:  # noqa: ANN401  (a message may hold any value)
        path = self._paths[name]
        try:
            return list(map(attrgetter(".".join(path)), messages))
        except AttributeError:
            # A nested object is null in one of them: what it would hold is missing.
            return [_walk(message, path, missing) for message in messages]


def names_of(schema: EventSchema) -> tuple[list[str], list[str]]:
    """Fields that hold one value, and fields that hold a list, of all that the schema gives a meaning; each once."""
    roles = schema.roles
    optional_roles = [name for name in (roles.kind, roles.impression) if name is not None]
    scalars = [*roles.event_id, roles.user, roles.item, roles.time, *optional_roles]
    scalars += [label.field for label in schema.labels] + [feature.field for feature in schema.dense]
    scalars += [feature.field for feature in schema.sparse if not feature.list]
    lists = [feature.field for feature in schema.sparse if feature.list]
    return list(dict.fromkeys(scalars)), list(dict.fromkeys(lists))


def planted(scalars: Iterable[str], lists: Iterable[str]) -> dict[str, Any]:
    """Fields by name, nested objects as dicts; the leaves are types. ConfigError where names contradict each other."""
    both = sorted(set(lists) & set(scalars))
    if both:
        raise ConfigError(f"field {both[0]} is used as a list and as a single value; it can be only one of them")
    tree: dict[str, Any] = {}
    for name in dict.fromkeys(scalars):
        _plant(tree, name, Scalar)
    for name in dict.fromkeys(lists):
        _plant(tree, name, msgspec.Raw)
    return tree


def _plant(tree: dict[str, Any], name: str, kind: Any) -> None:  # noqa: ANN401  (a message may hold any value)
    *parents, leaf = name.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"field {name} lies inside {parent}, which is used as a value itself")
    if leaf in tree:
        raise ConfigError(f"field {name} is used as a value, but other fields lie inside it")
    tree[leaf] = kind


def _path(tree: dict[str, Any], name: str) -> list[str]:
    # Names of fields may be no Python names: attributes are numbered.
    path = []
    for part in name.split("."):
        path.append(f"f{list(tree).index(part)}")
        tree = tree[part]
    return path


def _struct(type_name: str, tree: dict[str, Any]) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any, Any]] = []
    for index, kind in enumerate(tree.values()):
        if isinstance(kind, dict):
            nested = _struct(f"{type_name}_{index}", kind)
            fields.append((f"f{index}", nested | None, msgspec.field(default_factory=nested)))
        else:
            fields.append((f"f{index}", kind, _EMPTY if kind is msgspec.Raw else None))
    names = {f"f{index}": name for index, name in enumerate(tree)}
    # No cycle can start at a message, so the garbage collector need not look at millions of them.
    return msgspec.defstruct(type_name, fields, rename=names, gc=False)


def _walk(message: Any, path: Sequence[str], missing: Any) -> Any:  # noqa: ANN401  (a message may hold any value)
    for attribute in path:
        if message is None:
            return missing
        message = getattr(message, attribute)
    return message
