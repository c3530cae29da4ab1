"""JSON objects read by msgspec alone, field by field: what the kernels' way must equal. Asserts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import xxhash

from streams.errors import PoisonError, Reason
from streams.events.columns import Verdicts
from streams.events.diagnosis import diagnose
from streams.events.event import I64, U64, ListColumn
from streams.events.fields import Fields
from streams.events.lists import MISSING_TEXTS, list_column, row_of_json
from streams.events.record import Record
from streams.events.schema import EventSchema
from streams.events.values import Values


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Parsed:
    fields: Fields
    parsed: Sequence[msgspec.Struct]
    places: I64
    content_hash: U64

    def __len__(self) -> int:
        return len(self.parsed)

    def scalars(self, name: str) -> Values:
        return self.fields.scalars(self.parsed, name)

    def lists(self, name: str, which: I64, *, required: bool, verdicts: Verdicts) -> ListColumn:
        def decode(raw: bytes) -> list[int]:
            if raw not in MISSING_TEXTS:
                return row_of_json(raw)
            if required:
                raise PoisonError(Reason.MISSING_FIELD, "the list is missing")
            return []

        keys = [bytes(raw) for raw in self.fields.raw_lists(self.parsed, name)]
        return list_column(keys, decode, which, field=name, places=self.places, verdicts=verdicts)


class MsgspecObjects:
    """The format of one schema."""

    stride = 1

    def __init__(self, schema: EventSchema) -> None:
        self._fields = Fields.of(schema)

    def parse(self, positions: Sequence[int], values: Sequence[bytes], verdicts: Verdicts) -> _Parsed:
        parsed, good = [], []
        for i, value in enumerate(values):
            try:
                parsed += self._fields.parse([value])
                good.append(i)
            except (msgspec.DecodeError, RecursionError) as error:
                verdicts.reject(positions[i], diagnose(value, error))
        return _Parsed(
            fields=self._fields,
            parsed=parsed,
            places=np.array([positions[i] for i in good], np.int64),
            content_hash=np.array([xxhash.xxh3_64_intdigest(values[i]) for i in good], np.uint64),
        )

    def letter(self, record: Record, row: int) -> Record:  # noqa: ARG002  (a message is one event)
        return record
