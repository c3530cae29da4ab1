"""One JSON object a message.

Owns which way a message is read: by the kernels of `json_scan`, a whole poll at once, or by msgspec, whichever of the
kernels' ways it does not fit. Both give the same, so a producer's spelling decides nothing but the time it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from streams.errors import PoisonError, Reason
from streams.events.columns import Verdicts
from streams.events.diagnosis import diagnose
from streams.events.event import I64, U64, ListColumn
from streams.events.fields import Fields, names_of, planted
from streams.events.formats.json_columns import column_of
from streams.events.formats.json_rows import EMPTY, MEMORY_BYTES, KnownRows
from streams.events.formats.json_scan import IN_TEXT, Keys, Scanned, scan
from streams.events.formats.json_tokens import MISSING
from streams.events.lists import MISSING_TEXTS, reject_rows, row_of_json
from streams.events.record import Record
from streams.events.schema import EventSchema
from streams.events.values import Values, with_some

_GONE: Final = -1
"""In place of the row of an event whose list is missing."""
_FAILED: Final = -2
"""Event i's list is wrong: in place of its row, less i."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParsedObjects:
    """The N messages of a poll that are objects with fields of the right shape."""

    fields: Fields
    scanned: Scanned
    singles: Mapping[str, int]
    """Columns of `scanned`, by field."""
    of_lists: Mapping[str, int]
    kept: I64 | None
    """[N], their places in `scanned`; None: they are all of it, and all were understood."""
    odd: I64
    """Which of the N the kernels did not understand."""
    parsed: Sequence[msgspec.Struct]
    """Those, as msgspec reads them."""
    known: KnownRows
    places: I64
    content_hash: U64
    values: dict[str, Values] = field(default_factory=dict)
    """Columns that were asked for, by field: a role's field is often a feature's, too."""
    decoded: dict[bytes, int | PoisonError] = field(default_factory=dict)
    """Rows of lists that msgspec has decoded, by their text."""

    def __len__(self) -> int:
        return len(self.places)

    def scalars(self, name: str) -> Values:
        values = self.values.get(name)
        if values is None:
            values = column_of(self.scanned, self.singles[name], self.kept)
            if len(self.odd):
                values = with_some(values, self.odd, self.fields.scalars(self.parsed, name))
            self.values[name] = values
        return values

    def lists(self, name: str, which: I64, *, required: bool, verdicts: Verdicts) -> ListColumn:
        """Rows that other polls share, some of which nobody here has."""
        column, scanned = self.of_lists[name], self.scanned
        plain = self.kept is None and not scanned.unusual_L[column]
        if plain and (not required or scanned.found_L[column] == len(self)):
            return self._column(scanned.rows_LN[column], which)
        kept = slice(None) if self.kept is None else self.kept
        index, spans = scanned.rows_LN[column][kept].copy(), scanned.spans_LN2[column][kept]
        gone = spans[:, 0] == spans[:, 1]
        failed: dict[int, PoisonError] = {}
        for i, raw in self._texts(name, index, spans):
            gone[i] = raw in MISSING_TEXTS
            row = EMPTY if gone[i] else self._row(raw)
            if isinstance(row, PoisonError):
                failed[_FAILED - i] = row
                row = _FAILED - i
            index[i] = row
        if required and gone.any():
            index[gone], failed[_GONE] = _GONE, PoisonError(Reason.MISSING_FIELD, "the list is missing")
        reject_rows(index, failed, which, field=name, places=self.places, verdicts=verdicts)
        index[index < 0] = EMPTY
        return self._column(index, which)

    def _column(self, index: npt.NDArray[np.int32], which: I64) -> ListColumn:
        """Of these rows; the empty one for those that are not chosen."""
        if len(which) < len(index):
            index, chosen = np.full(len(index), EMPTY, np.int32), index[which]
            index[which] = chosen
        return ListColumn(rows=self.known.rows, index=index, source=self.known.source)

    def _texts(self, name: str, index: npt.NDArray[np.int32], spans: I64) -> Iterator[tuple[int, bytes]]:
        """Lists that are to be decoded by msgspec, and which of the N has them."""
        for i in np.flatnonzero(index == IN_TEXT).tolist():
            yield i, self.scanned.text[spans[i, 0] : spans[i, 1]].tobytes()
        yield from zip(self.odd.tolist(), map(bytes, self.fields.raw_lists(self.parsed, name)), strict=True)

    def _row(self, raw: bytes) -> int | PoisonError:
        found = self.decoded.get(raw)
        if found is None:
            try:
                found = self.known.add(row_of_json(raw), len(raw))
            except PoisonError as error:
                found = error
            self.decoded[raw] = found
        return found


class JsonObjects:
    """The format of one schema. Remembers lists from poll to poll (`json_rows`)."""

    stride = 1

    def __init__(self, schema: EventSchema, *, memory_bytes: int = MEMORY_BYTES) -> None:
        """`memory_bytes`: text of lists that is remembered; what comes out does not depend on it."""
        singles, lists = names_of(schema)
        self._fields = Fields(singles, lists)
        self._keys = Keys.of(planted(singles, lists), singles, lists)
        self._singles = {name: column for column, name in enumerate(singles)}
        self._lists = {name: column for column, name in enumerate(lists)}
        self._known = KnownRows(memory_bytes)

    def parse(self, positions: Sequence[int], values: Sequence[bytes], verdicts: Verdicts) -> ParsedObjects:
        # Lists of a message that is given up half-way are decoded twice.
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        room = self._known.make_room(2 * int(sizes.sum()))
        scanned = scan(values, sizes, self._keys, len(self._singles), len(self._lists), room)
        content = scanned.content_hash
        places = np.array(positions, dtype=np.int64)
        kept: I64 | None = None
        parsed: list[msgspec.Struct] = []
        odd = np.flatnonzero(~scanned.understood)
        if len(odd):
            scanned.kinds_SN[:, odd], scanned.rows_LN[:, odd] = MISSING, EMPTY
            wrong: list[int] = []
            for i in odd.tolist():
                try:
                    parsed += self._fields.parse([values[i]])
                except (msgspec.DecodeError, RecursionError) as error:
                    verdicts.reject(positions[i], diagnose(values[i], error))
                    wrong.append(i)
            kept = np.delete(np.arange(len(values)), wrong)
            odd = np.flatnonzero(~scanned.understood[kept])
            places, content = places[kept], content[kept]
        return ParsedObjects(
            fields=self._fields,
            scanned=scanned,
            singles=self._singles,
            of_lists=self._lists,
            kept=kept,
            odd=odd,
            parsed=parsed,
            known=self._known,
            places=places,
            content_hash=content,
        )

    def letter(self, record: Record, row: int) -> Record:  # noqa: ARG002  (a message is one event)
        return record
