"""Messages that begin with the number of their schema in a registry: Avro and Protobuf in the Confluent wire format.

Layout: byte 0 is 0; bytes 1 to 4 are the schema's id, big-endian; the rest is the schema's own (`avro`, `protobuf`).

Owns the frame, the schemas that were met, and the columns of a poll whose messages have several schemas. A schema
under an id never changes, so each is asked for once; an id that the registry does not know makes its messages dead
letters, a registry that does not answer makes nothing one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import xxhash

from streams.errors import PoisonError, Reason
from streams.events.columns import Verdicts
from streams.events.event import I64, U64, ListColumn
from streams.events.fields import names_of, planted
from streams.events.formats.schemas import Registered, Schemas
from streams.events.ids import Scalar
from streams.events.lists import list_column, row_of_values
from streams.events.record import Record
from streams.events.schema import EventSchema
from streams.events.values import Values


class NoObject:
    """Stands for a field inside of what is no object."""


NO_OBJECT: Final = NoObject()
_HEAD: Final = 5
_SCALARS: Final = frozenset({int, float, str, bool, type(None)})
_MOST_UNKNOWN: Final = 10_000
"""Ids of no schema that are remembered: a topic full of noise must not fill the memory, nor ask for each."""


class Plan(Protocol):
    """How the messages of one schema are read."""

    def parse(self, body: bytes) -> Any:  # noqa: ANN401  (whatever the library makes of a message)
        """A message, from what follows the frame. Raises PoisonError."""

    def column(self, messages: Sequence[Any], name: str) -> list[Any]:
        """A field, one value a message; None where it is missing. Lists as Python lists."""


MakePlan = Callable[[Registered, Sequence[str]], Plan]
"""The plan of a schema that reads these fields. Raises PoisonError if it is none of this format's."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParsedMessages:
    """The messages of a poll that could be parsed, with their scalars."""

    places: I64
    content_hash: U64
    columns: dict[str, list[Scalar]]
    keys: dict[str, list[Any]]
    """List fields: a tuple, a string that says why it is none, or None, one a message."""

    def __len__(self) -> int:
        return len(self.places)

    def scalars(self, name: str) -> Values:
        return self.columns[name]

    def lists(self, name: str, which: I64, *, required: bool, verdicts: Verdicts) -> ListColumn:
        decode = partial(row_of_values, required=required)
        return list_column(self.keys[name], decode, which, field=name, places=self.places, verdicts=verdicts)


@dataclass(slots=True)
class _Group:
    """Messages of one schema, and where each stands among all that were parsed."""

    where: list[int] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)


class Framed:
    """The format of one schema of events, over registered schemas of one kind."""

    stride = 1

    def __init__(self, schema: EventSchema, schemas: Schemas, make_plan: MakePlan) -> None:
        self._scalars, self._lists = names_of(schema)
        planted(self._scalars, self._lists)  # refuses names that contradict each other, as every format does
        self._schemas = schemas
        self._make_plan = make_plan
        self._plans: dict[int, Plan] = {}
        self._refused: dict[int, PoisonError] = {}

    def parse(self, positions: Sequence[int], values: Sequence[bytes], verdicts: Verdicts) -> ParsedMessages:
        groups: dict[int, _Group] = {}
        good: list[int] = []
        for i, value in enumerate(values):
            try:
                schema_id = _schema_id(value)
                message = self._plan(schema_id).parse(value[_HEAD:])
            except PoisonError as error:
                verdicts.reject(positions[i], error)
                continue
            group = groups.get(schema_id) or groups.setdefault(schema_id, _Group())
            group.where.append(len(good))
            group.messages.append(message)
            good.append(i)
        places = np.array([positions[i] for i in good], dtype=np.int64)
        digests = (xxhash.xxh3_64_intdigest(values[i]) for i in good)
        return ParsedMessages(
            places=places,
            content_hash=np.fromiter(digests, dtype=np.uint64, count=len(good)),
            columns={
                name: _checked(self._column(groups, name, len(good)), name, places, verdicts) for name in self._scalars
            },
            keys={name: list(map(_key, self._column(groups, name, len(good)))) for name in self._lists},
        )

    def letter(self, record: Record, row: int) -> Record:  # noqa: ARG002  (a message is one event)
        return record

    def _plan(self, schema_id: int) -> Plan:
        plan = self._plans.get(schema_id)
        if plan is None:
            plan = self._plans[schema_id] = self._new_plan(schema_id)
        return plan

    def _new_plan(self, schema_id: int) -> Plan:
        refused = self._refused.get(schema_id)
        if refused is None:
            registered = self._schemas.get(schema_id)
            try:
                if registered is not None:
                    return self._make_plan(registered, [*self._scalars, *self._lists])
                refused = PoisonError(Reason.UNKNOWN_SCHEMA, f"the registry knows no schema {schema_id}")
            except PoisonError as error:
                refused = PoisonError(error.reason, f"schema {schema_id}: {error.detail}")
            if len(self._refused) >= _MOST_UNKNOWN:
                self._refused.clear()
            self._refused[schema_id] = refused
        raise refused

    def _column(self, groups: dict[int, _Group], name: str, num: int) -> list[Any]:
        if len(groups) == 1:
            (schema_id, group), *_ = groups.items()
            return self._plans[schema_id].column(group.messages, name)
        column: list[Any] = [None] * num
        for schema_id, group in groups.items():
            for i, value in zip(group.where, self._plans[schema_id].column(group.messages, name), strict=True):
                column[i] = value
        return column


def _schema_id(value: bytes) -> int:
    if len(value) < _HEAD or value[0] != 0:
        told = f"it begins with {value[:_HEAD].hex() or 'nothing'}, not with 00 and the number of a schema"
        raise PoisonError(Reason.BROKEN_MESSAGE, told)
    return int.from_bytes(value[1:_HEAD], "big")


def _checked(column: list[Any], name: str, places: I64, verdicts: Verdicts) -> list[Scalar]:
    """The column, None where a value is no scalar or not finite; those are rejected."""
    types = set(map(type, column))
    suspects: Iterable[int] = ()
    if not types <= _SCALARS:
        suspects = [i for i, value in enumerate(column) if type(value) not in _SCALARS]
    for i in suspects:
        kind = type(column[i]).__name__
        told = f"field {name}: " + (
            "what it lies in is no object" if column[i] is NO_OBJECT else f"{kind} is no single value"
        )
        verdicts.reject(int(places[i]), PoisonError(Reason.WRONG_TYPE, told))
        column[i] = None
    if float in types:
        for i in [i for i, value in enumerate(column) if type(value) is float and not math.isfinite(value)]:
            told = f"field {name}: {column[i]} is not finite"
            verdicts.reject(int(places[i]), PoisonError(Reason.NOT_FINITE, told))
            column[i] = None
    return column


def _key(value: Any) -> tuple[Scalar, ...] | str | None:  # noqa: ANN401  (a field may hold any value)
    """What tells lists apart. Equal tuples have equal ids: 1, 1.0 and true are one id."""
    if value is None:
        return None
    if not isinstance(value, list):
        return f"it is {type(value).__name__}"
    odd = set(map(type, value)) - _SCALARS
    return f"it holds {odd.pop().__name__}" if odd else tuple(value)
