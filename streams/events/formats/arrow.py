"""Arrow: many events a message, as columns. Needs pyarrow.

A message is one Arrow IPC stream of record batches; each row is an event, each column a field; a struct column is an
object, and dots reach into it. Nothing is done event by event: numbers stay arrays, texts are looked at once per
distinct value, lists go to distinct rows.

Owns what is a message, what its columns may be, and what one event of it looks like as a dead letter. An event's
content hash is that of its message and its row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from streams.errors import PoisonError, Reason
from streams.events.columns import Verdicts
from streams.events.event import I64, U64, ListColumn
from streams.events.fields import names_of, planted
from streams.events.formats.arrow_lists import is_list, list_values
from streams.events.formats.arrow_stream import MOST_ROWS, is_sound, one_row, opened, table_of
from streams.events.formats.arrow_values import Array, is_scalar, missing, values_of
from streams.events.ids import mixed
from streams.events.record import Located, Record
from streams.events.schema import EventSchema
from streams.events.values import Coded, Typed, Values, joined
from streams.ikjt.jagged import Jagged


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParsedTables:
    """The events of the messages of a poll that could be parsed."""

    places: I64
    content_hash: U64
    tables: Sequence[pa.Table]
    """In order; neighbours have different columns."""
    known: dict[str, Values] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def scalars(self, name: str) -> Values:
        return self.known[name]

    def lists(self, name: str, which: I64, *, required: bool, verdicts: Verdicts) -> ListColumn:
        """[N] rows, as `Messages.lists` has them."""
        columns, start = [], 0
        for table in self.tables:
            stop = start + table.num_rows
            low, high = np.searchsorted(which, (start, stop))
            columns.append(
                list_values(
                    column_of(table, name),
                    which[low:high] - start,
                    num=table.num_rows,
                    field=name,
                    required=required,
                    places=self.places[start:stop],
                    verdicts=verdicts,
                )
            )
            start = stop
        return ListColumn.concat(columns) if columns else _NO_LISTS


@dataclass(frozen=True, slots=True, eq=False)
class _Message:
    """The message of the record at a position."""

    position: int
    value: bytes
    table: pa.Table


class ArrowTables:
    """The format of one schema."""

    stride: int = MOST_ROWS

    def __init__(self, schema: EventSchema) -> None:
        self._scalars, self._lists = names_of(schema)
        planted(self._scalars, self._lists)  # refuses names that contradict each other, as every format does
        self._last: tuple[bytes, pa.Table] | None = None
        self._known: tuple[pa.Schema, PoisonError | None] | None = None
        """The columns that were met last, and what is wrong with them."""

    def parse(self, positions: Sequence[int], values: Sequence[bytes], verdicts: Verdicts) -> ParsedTables:
        found: list[_Message] = []
        for position, value in zip(positions, values, strict=True):
            try:
                table = table_of(value)
                misfit = self._misfit(table.schema)
                if misfit is not None:
                    raise misfit
            except PoisonError as error:
                verdicts.reject(position * MOST_ROWS, error)
            else:
                found.append(_Message(position, value, table))
        runs: list[pa.Table] = []
        sound: list[_Message] = []
        for _, run in groupby(found, key=lambda message: message.table.schema):
            good, whole = _checked(list(run), verdicts)
            sound += good
            runs += [] if whole is None else [whole]
        places, content_hash = _identities(sound)
        parsed = ParsedTables(places=places, content_hash=content_hash, tables=runs)
        for name in self._scalars:
            parts = [values_of(column_of(table, name), table.num_rows) for table in runs]
            parsed.known[name] = _finite(joined(parts or [missing(0)]), name, places, verdicts)
        return parsed

    def letter(self, record: Record, row: int) -> Record:
        value = record.value
        if value is None:
            return record
        if self._last is None or self._last[0] is not value:
            self._last = value, opened(value)
        return Located(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=one_row(self._last[1], row),
            headers=record.headers,
        )

    def _misfit(self, schema: pa.Schema) -> PoisonError | None:
        """Why no event of these columns can be used; missing columns are no reason."""
        if self._known is None or not self._known[0].equals(schema):
            self._known = schema, self._new_misfit(schema)
        return self._known[1]

    def _new_misfit(self, schema: pa.Schema) -> PoisonError | None:
        for name, fits, wanted in [
            *((name, is_scalar, "single values") for name in self._scalars),
            *((name, is_list, "lists of ids") for name in self._lists),
        ]:
            kinds: list[pa.DataType] = []
            fields: Any = schema
            for part in name.split("."):
                if kinds and not pa.types.is_struct(kinds[-1]):
                    return PoisonError(
                        Reason.WRONG_TYPE, f"field {name} lies inside of {kinds[-1]}, which is no struct"
                    )
                fields = kinds[-1] if kinds else schema
                kinds_here = [fields.field(i).type for i in fields.get_all_field_indices(part)]
                if len(kinds_here) > 1:
                    return PoisonError(Reason.WRONG_TYPE, f"field {name}: the column is there {len(kinds_here)} times")
                if not kinds_here:
                    break
                kinds.append(kinds_here[0])
            else:
                if not fits(kinds[-1]):
                    return PoisonError(Reason.WRONG_TYPE, f"field {name} is of type {kinds[-1]}, not {wanted}")
        return None


def _checked(run: list[_Message], verdicts: Verdicts) -> tuple[list[_Message], pa.Table | None]:
    """The messages of a run of equal columns that are not damaged inside, and those as one table."""
    whole = pa.concat_tables([message.table for message in run])
    if is_sound(whole):
        return run, whole
    good = []
    for message in run:
        if is_sound(message.table):
            good.append(message)
        else:
            told = PoisonError(Reason.BROKEN_MESSAGE, "it is an Arrow stream whose columns are damaged")
            verdicts.reject(message.position * MOST_ROWS, told)
    return good, pa.concat_tables([message.table for message in good]) if good else None


def _identities(messages: list[_Message]) -> tuple[I64, U64]:
    """[N], place and content hash of every event."""
    counts = np.array([message.table.num_rows for message in messages], np.int64)
    rows = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    firsts = np.array([message.position * MOST_ROWS for message in messages], np.int64)
    digests = np.array([xxhash.xxh3_64_intdigest(message.value) for message in messages], np.uint64)
    return np.repeat(firsts, counts) + rows, mixed(rows.astype(np.uint64) ^ np.repeat(digests, counts))


def column_of(table: pa.Table, name: str) -> Array | None:
    """A field of all events; None if there is none. Dots reach into structs, and what a null one holds is missing."""
    first, *rest = name.split(".")
    if first not in table.schema.names:
        return None
    column: Any = table.column(first)
    for part in rest:
        if part not in [each.name for each in column.type]:
            return None
        column = pc.struct_field(column, part)
    return column


def _finite(values: Values, name: str, places: I64, verdicts: Verdicts) -> Values:
    """The values; those that are not finite are rejected, and missing."""
    if isinstance(values, Typed):
        if values.numbers.dtype.kind != "f":
            return values
        wrong = ~np.isfinite(values.numbers)
        if values.missing is not None:
            wrong &= ~values.missing
        if not wrong.any():
            return values
        _reject(wrong, name, places, verdicts)
        gone = wrong if values.missing is None else wrong | values.missing
        return Typed(np.where(gone, 0.0, values.numbers), gone)
    if isinstance(values, Coded):
        odd = [type(value) is float and not math.isfinite(value) for value in values.distinct]
        if any(odd):
            _reject(np.array(odd)[values.index], name, places, verdicts)
            return Coded([None if bad else v for bad, v in zip(odd, values.distinct, strict=True)], values.index)
        return values
    odd = [type(value) is float and not math.isfinite(value) for value in values]
    if any(odd):
        _reject(np.array(odd), name, places, verdicts)
    return [None if bad else value for bad, value in zip(odd, values, strict=True)]


def _reject(wrong: npt.NDArray[np.bool_], name: str, places: I64, verdicts: Verdicts) -> None:
    for place in places[wrong].tolist():
        verdicts.reject(place, PoisonError(Reason.NOT_FINITE, f"field {name}: it is not finite"))


_NO_LISTS: Final = ListColumn(rows=Jagged.from_lists([]), index=np.empty(0, np.int32))
