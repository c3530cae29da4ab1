"""One JSON object a message.

Owns what is decoded when: scalars at once and in C, lists only where their bytes are new (`lists`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np
import xxhash

from streams.events.columns import Verdicts
from streams.events.diagnosis import diagnose
from streams.events.event import I64, U64, ListColumn
from streams.events.fields import Fields
from streams.events.lists import list_column, row_of_json
from streams.events.record import Record
from streams.events.schema import EventSchema
from streams.events.values import Values


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParsedObjects:
    """The messages of a poll that are objects with fields of the right shape."""

    fields: Fields
    parsed: Sequence[msgspec.Struct]
    places: I64
    content_hash: U64

    def __len__(self) -> int:
        return len(self.parsed)

    def scalars(self, name: str) -> Values:
        return self.fields.scalars(self.parsed, name)

    def lists(self, name: str, which: I64, *, required: bool, verdicts: Verdicts) -> ListColumn:
        keys = [bytes(raw) for raw in self.fields.raw_lists(self.parsed, name)]
        decode = partial(row_of_json, required=required)
        return list_column(keys, decode, which, field=name, places=self.places, verdicts=verdicts)


class JsonObjects:
    """The format of one schema."""

    stride = 1

    def __init__(self, schema: EventSchema) -> None:
        self._fields = Fields.of(schema)

    def parse(self, positions: Sequence[int], values: Sequence[bytes], verdicts: Verdicts) -> ParsedObjects:
        try:
            parsed = self._fields.parse(values)
        except (msgspec.DecodeError, RecursionError):
            parsed, good = [], []
            for i, value in enumerate(values):
                try:
                    parsed += self._fields.parse([value])
                    good.append(i)
                except (msgspec.DecodeError, RecursionError) as error:
                    verdicts.reject(positions[i], diagnose(value, error))
            positions, values = [positions[i] for i in good], [values[i] for i in good]
        content = np.fromiter(map(xxhash.xxh3_64_intdigest, values), dtype=np.uint64, count=len(values))
        places = np.array(positions, dtype=np.int64)
        return ParsedObjects(fields=self._fields, parsed=parsed, places=places, content_hash=content)

    def letter(self, record: Record, row: int) -> Record:  # noqa: ARG002  (a message is one event)
        return record
