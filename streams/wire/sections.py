"""The columns of a message on their way into the body, and out of the arena.

Owns their sequence: written one after the other, and taken in the same order. What they mean is `codec` and `groups`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.errors import WireError
from streams.wire.arena import Arena
from streams.wire.layout import DTYPES, Kind
from streams.wire.packing import Packed
from streams.wire.table import COLUMNS

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
    """The decoded sections of a message, taken one after the other. A section is known by its place in the table."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._next = 0

    def upcoming(self) -> int:
        """Kind of the next section; 0 at the end."""
        return self._arena.kinds[self._next] if self._next < len(self._arena.kinds) else 0

    def take(self, kind: Kind, dtype: type[np.generic] | np.dtype[Any] | None = None) -> int:
        """The next section, which must be of this kind, and of this dtype where one is given."""
        index = self._next
        if self.upcoming() != kind:
            found = self.words(index) if self.upcoming() else "the end"
            raise WireError(f"a section {kind.name.lower()} must come here, not {found}")
        self._next += 1
        if dtype is not None and DTYPES[self._arena.dtypes[index]] != dtype:
            raise WireError(f"{self.words(index)} holds {DTYPES[self._arena.dtypes[index]]}, not {np.dtype(dtype)}")
        return index

    def column(self, index: int) -> Array:
        """[V], or [V + 1] offsets."""
        return self._arena.column(index)

    def matrix(self, index: int, num_rows: int) -> Array:
        """[rows, columns]."""
        columns = int(self._arena.table.lines[index, COLUMNS])
        if self.count(index) != num_rows * columns:
            raise WireError(f"{self.words(index)} has {self.count(index)} values for {num_rows} rows of {columns}")
        return self.column(index).reshape(num_rows, columns)

    def count(self, index: int) -> int:
        """V."""
        return self._arena.counts[index]

    def proof(self, index: int) -> int:
        """What decoding proved; see `Arena.proofs`."""
        return self._arena.proofs[index]

    def name(self, index: int) -> str:
        """Raises WireError for a name that is not UTF-8."""
        return self._arena.table.name(index)

    def same_name(self, left: int, right: int) -> bool:
        """Whether two sections carry the same name."""
        return self._arena.table.name_bytes(left) == self._arena.table.name_bytes(right)

    def words(self, index: int) -> str:
        """A section as messages call it."""
        return str(self._arena.table.section(index))
