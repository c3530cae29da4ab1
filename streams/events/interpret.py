"""The meaning of parsed messages: roles, labels and features of a schema as the columns of an EventBatch.

Owns which field becomes which column, for which kinds of event. The checks run in a fixed order, so the reason
for a message does not depend on its neighbours. Never parses, and never judges a time against anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.errors import PoisonError, Reason
from streams.events.columns import Verdicts, number
from streams.events.event import F32, I64, EventBatch, ListColumn
from streams.events.ids import NO_ID, Scalar, feature_id, pair_id, text_of, tombstone_id, user_id, user_of_key
from streams.events.label_rules import says
from streams.events.messages import Messages
from streams.events.reader import Reader
from streams.events.record import Record
from streams.events.roles import KindName
from streams.events.schema import EventKind, EventSchema, Label
from streams.ikjt.jagged import Jagged

_KINDS: Final[dict[KindName, EventKind]] = {
    "impression": EventKind.IMPRESSION,
    "outcome": EventKind.OUTCOME,
    "labelled": EventKind.LABELLED,
}


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Turns the messages of one schema into columns."""

    schema: EventSchema

    def events(self, messages: Messages, offset: I64, appended_ms: I64, verdicts: Verdicts) -> EventBatch:
        """All messages as events; those that do not fit are rejected and hold zeros where they do not."""
        roles = self.schema.roles
        everywhere = np.arange(len(messages))
        reader = Reader(messages=messages, verdicts=verdicts)
        event_time_ms = reader.times(roles.time, roles.time_unit, everywhere)
        user = reader.ids(roles.user, user_id, everywhere)
        kind = self._kinds(reader, everywhere)
        event_id = reader.event_ids(roles.event_id, everywhere)
        samples = np.flatnonzero((kind == EventKind.IMPRESSION) | (kind == EventKind.LABELLED))
        outcomes = np.flatnonzero(kind == EventKind.OUTCOME)
        item = self._items(reader, samples, outcomes)
        impression = event_id.copy()
        if roles.join == "user_item":
            impression = pair_id(user, item)
        elif roles.impression is not None and len(outcomes):
            impression[outcomes] = reader.event_ids([roles.impression], outcomes)
        return EventBatch(
            offset=offset,
            event_time_ms=event_time_ms,
            event_id=event_id,
            content_hash=messages.content_hash,
            user=user,
            item=item,
            kind=kind,
            impression=impression,
            appended_ms=appended_ms,
            labels=self._labels(reader, kind),
            dense=self._dense(reader, samples),
            ids=self._single_ids(reader, samples),
            lists=tuple(
                reader.lists(feature.field, samples, required=feature.required)
                for feature in self.schema.sparse
                if feature.list
            ),
        )

    def tombstones(
        self, records: Sequence[Record], places: I64, offset: I64, appended_ms: I64, verdicts: Verdicts
    ) -> EventBatch:
        """Records without a value, at these places of the poll: each erases the user that is its key."""
        num, schema = len(records), self.schema
        event_id = np.array([tombstone_id(record.partition, record.offset) for record in records], dtype=np.uint64)
        user = np.zeros(num, dtype=np.int64)
        for row, record in enumerate(records):
            try:
                user[row] = user_of_key(record.key)
            except PoisonError as error:
                verdicts.reject(int(places[row]), error)
        dense, ids, lists = no_features(schema, num)
        return EventBatch(
            offset=offset,
            event_time_ms=np.array([record.timestamp for record in records], dtype=np.int64),
            event_id=event_id,
            content_hash=event_id,
            user=user,
            item=np.full(num, NO_ID),
            kind=np.full(num, EventKind.TOMBSTONE, dtype=np.uint8),
            impression=event_id,
            appended_ms=appended_ms,
            labels=np.full((num, len(schema.labels)), np.nan, dtype=np.float32),
            dense=dense,
            ids=ids,
            lists=lists,
        )

    def _kinds(self, reader: Reader, which: I64) -> npt.NDArray[np.uint8]:
        roles = self.schema.roles
        if roles.kind is None:
            return np.full(len(which), _KINDS[roles.default_kind], dtype=np.uint8)
        return reader.convert(roles.kind, self._kind, which, np.uint8)

    def _kind(self, value: Scalar) -> int:
        if value is None:
            raise PoisonError(Reason.MISSING_FIELD, "the kind of event is missing")
        roles = self.schema.roles
        name = roles.kinds.get(text_of(value))
        if name is None:
            raise PoisonError(Reason.UNKNOWN_KIND, f"{text_of(value)[:40]!r} is none of {roles.section}.kinds")
        return _KINDS[name]

    def _items(self, reader: Reader, samples: I64, outcomes: I64) -> I64:
        """Items of all messages; an outcome needs one only where it is found by it."""
        field = self.schema.roles.item
        items = _spread(reader.ids(field, feature_id, samples), samples, len(reader.messages), NO_ID)
        if len(outcomes):
            needed = self.schema.roles.join == "user_item"
            items[outcomes] = reader.ids(field, feature_id if needed else _optional_id, outcomes)
        return items

    def _labels(self, reader: Reader, kind: npt.NDArray[np.uint8]) -> F32:
        labels = np.full((len(kind), len(self.schema.labels)), np.nan, dtype=np.float32)
        telling = np.flatnonzero((kind == EventKind.OUTCOME) | (kind == EventKind.LABELLED))
        for column, label in enumerate(self.schema.labels):
            labels[telling, column] = _says(reader, label, telling)
        return labels

    def _dense(self, reader: Reader, samples: I64) -> F32:
        dense = np.zeros((len(reader.messages), len(self.schema.dense)), dtype=np.float32)
        for column, feature in enumerate(self.schema.dense):
            values = reader.numbers(feature.field, partial(_number_or, default=feature.default), samples)
            with np.errstate(over="ignore"):
                # What is finite in 64 bits may not be in 32.
                narrow = values.astype(np.float32)
            too_large = PoisonError(Reason.NOT_FINITE, "the number is too large for float32")
            reader.reject_where(~np.isfinite(narrow), samples, too_large, feature.field)
            dense[samples, column] = narrow
        return dense

    def _single_ids(self, reader: Reader, samples: I64) -> I64:
        features = [feature for feature in self.schema.sparse if not feature.list]
        ids = np.full((len(reader.messages), len(features)), NO_ID)
        for column, feature in enumerate(features):
            rule = feature_id if feature.required else _optional_id
            ids[samples, column] = reader.ids(feature.field, rule, samples)
        return ids


def no_features(schema: EventSchema, num: int) -> tuple[F32, I64, tuple[ListColumn, ...]]:
    """`dense`, `ids` and `lists` of events that have no features."""
    empty = ListColumn(rows=_ONE_EMPTY_ROW, index=np.zeros(num, dtype=np.int32))
    return (
        np.zeros((num, len(schema.dense)), dtype=np.float32),
        np.full((num, sum(not feature.list for feature in schema.sparse)), NO_ID),
        tuple(empty for feature in schema.sparse if feature.list),
    )


_LARGEST_FLOAT: Final = float(np.finfo(np.float32).max)
_ONE_EMPTY_ROW: Final = Jagged(np.empty(0, dtype=np.int64), np.zeros(2, dtype=np.int64))


def _says(reader: Reader, label: Label, which: I64) -> npt.NDArray[Any]:
    """What the chosen events say of a label (`label_rules`); NaN where its field is missing."""
    if label.rule == "in":
        words = frozenset(label.values)
        return reader.convert(label.field, lambda v: np.nan if v is None else text_of(v) in words, which, np.float32)
    # No format lets a NaN through (`messages`), nor does `_number_or`: here it can only stand for a missing field.
    values = reader.numbers(label.field, partial(_number_or, default=np.nan), which)
    if label.rule == "value":
        neither = ~np.isnan(values) & (values != 0) & (values != 1)
        reader.reject_where(neither, which, PoisonError(Reason.WRONG_TYPE, "the label is neither 0 nor 1"), label.field)
    said = says(label, values)
    too_large = PoisonError(Reason.NOT_FINITE, "the number is too large for float32")
    reader.reject_where(np.abs(said) > _LARGEST_FLOAT, which, too_large, label.field)
    return np.asarray(np.clip(said, -_LARGEST_FLOAT, _LARGEST_FLOAT))


def _number_or(value: Scalar, default: float | None) -> float:
    if value is None and default is not None:
        return default
    found = number(value)
    if not np.isfinite(found):
        raise PoisonError(Reason.NOT_FINITE, f"{value!r} is not finite")
    return found


def _optional_id(value: Scalar) -> int:
    return NO_ID if value is None else feature_id(value)


def _spread(values: I64, which: I64, num: int, default: int) -> I64:
    """A column of the chosen messages as one of all of them."""
    if len(which) == num:
        return values
    column = np.full(num, default)
    column[which] = values
    return column
