"""A program: recd's worker, but with every list of every event decoded, as one would with msgspec alone.

    python -m benchmarks.sessionizer.decoding_worker sessionizer --exit-at-end --json -c recd.toml

Owns that decoder; all behind it is the worker's own. For topics whose every message fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import xxhash

from infra import cli
from sessionizer import wiring
from streams.events.columns import Verdicts
from streams.events.event import I64, U64, ListColumn
from streams.events.fields import names_of
from streams.events.formats.config import FormatConfig
from streams.events.formats.schemas import Schemas
from streams.events.ids import Scalar
from streams.events.messages import Format
from streams.events.record import Record
from streams.events.schema import EventSchema
from streams.events.values import Values
from streams.ikjt.jagged import Jagged, offsets_of


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Decoded:
    """The messages of a poll."""

    attributes: dict[str, str]
    parsed: Sequence[msgspec.Struct]
    places: I64
    content_hash: U64

    def __len__(self) -> int:
        return len(self.parsed)

    def scalars(self, name: str) -> Values:
        return list(map(attrgetter(self.attributes[name]), self.parsed))

    def lists(self, name: str, which: I64, *, required: bool, verdicts: Verdicts) -> ListColumn:  # noqa: ARG002  (all are there)
        rows: list[list[int]] = list(map(attrgetter(self.attributes[name]), self.parsed))
        offsets = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
        values = np.fromiter(chain.from_iterable(rows), np.int64, int(offsets[-1]))
        return ListColumn(rows=Jagged(values, offsets), index=np.arange(len(rows), dtype=np.int32))


class EveryList:
    """JSON objects without nested fields. Every list is decoded every time."""

    stride = 1

    def __init__(self, schema: EventSchema) -> None:
        singles, lists = names_of(schema)
        self._attributes = {name: f"f{i}" for i, name in enumerate([*singles, *lists])}
        fields: list[tuple[str, Any, Any]] = [(self._attributes[name], Scalar, None) for name in singles]
        none: Any = msgspec.field(default_factory=list)
        fields += [(self._attributes[name], list[int], none) for name in lists]
        names = {attribute: name for name, attribute in self._attributes.items()}
        kind = msgspec.defstruct("Message", fields, rename=names, gc=False)
        self._decode = msgspec.json.Decoder(kind).decode

    def parse(self, positions: Sequence[int], values: Sequence[bytes], verdicts: Verdicts) -> _Decoded:  # noqa: ARG002  (all fit)
        return _Decoded(
            attributes=self._attributes,
            parsed=list(map(self._decode, values)),
            places=np.array(positions, np.int64),
            content_hash=np.fromiter(map(xxhash.xxh3_64_intdigest, values), np.uint64, len(values)),
        )

    def letter(self, record: Record, row: int) -> Record:  # noqa: ARG002  (a message is one event)
        return record


def _every_list(_config: FormatConfig, schema: EventSchema, _schemas: Callable[[], Schemas]) -> Format:
    return EveryList(schema)


if __name__ == "__main__":
    vars(wiring)["choose"] = _every_list  # The one thing that is not the worker's own.
    cli.main()
