"""The columns of a message on their way into the body, and out of the arena.

Owns their sequence: written one after the other, and taken in the same order. What they mean is `codec` and `groups`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from streams.errors import WireError
from streams.wire.arena import Arena
from streams.wire.layout import DTYPES, Kind
from streams.wire.packing import Packed
from streams.wire.table import COLUMNS, utf8

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A section before it has a position."""

    kind: Kind
    array: Array
    packed: Packed
    name: str = ""
    columns: int = 1


class Sections:
    """The decoded sections of a message, taken one after the other. A section is known by its place in the table.

    A message has over a hundred, so what is asked of each lies in lists.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._next = 0
        self._kinds = [*arena.kinds, 0]
        self.counts = arena.counts
        """V of each."""
        self.proofs = arena.proofs
        """What decoding proved of each; see `Arena.proofs`."""
        self.names = arena.table.each_name()
        """The name of each in UTF-8."""
        self.column = arena.column
        """[V] of a section, or [V + 1] offsets."""

    def upcoming(self) -> int:
        """Kind of the next section; 0 at the end."""
        return self._kinds[self._next]

    def take(self, kind: int, dtype: int = 0) -> int:
        """The next section, which must be of this kind, and of this dtype's code where one is given."""
        index = self._next
        if self._kinds[index] != kind:
            found = self.words(index) if self._kinds[index] else "the end"
            raise WireError(f"a section {Kind(kind).name.lower()} must come here, not {found}")
        self._next = index + 1
        if dtype and self._arena.dtypes[index] != dtype:
            raise WireError(f"{self.words(index)} holds {DTYPES[self._arena.dtypes[index]]}, not {DTYPES[dtype]}")
        return index

    def matrix(self, index: int, num_rows: int) -> Array:
        """[rows, columns]."""
        columns = int(self._arena.table.lines[index, COLUMNS])
        if self.counts[index] != num_rows * columns:
            raise WireError(f"{self.words(index)} has {self.counts[index]} values for {num_rows} rows of {columns}")
        return self.column(index).reshape(num_rows, columns)

    def name(self, index: int) -> str:
        """Raises WireError for a name that is not UTF-8."""
        return utf8(self.names[index], index)

    def words(self, index: int) -> str:
        """A section as messages call it."""
        return str(self._arena.table.section(index))
