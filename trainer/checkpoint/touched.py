"""Which table rows steps have used since they were last copied: a byte a row. Rows that no step used have not changed.

Who changes a row outside a step must note it here too. Knows no tensor.

Shape suffixes: R rows of the arena, X distinct rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from trainer.config import TableConfig
from trainer.ids import first_rows

I64 = npt.NDArray[np.int64]


class Touched:
    """The rows of these tables; with none of them nothing is noted."""

    def __init__(self, tables: Mapping[str, TableConfig]) -> None:
        self._first = first_rows(tables)
        self._rows = {name: config.rows for name, config in tables.items()}
        self._used_R = np.zeros(sum(self._rows.values()), np.bool_)

    def note(self, rows_X: I64) -> None:
        """A step uses these rows of the arena."""
        if len(self._used_R):
            self._used_R[rows_X] = True

    def take(self) -> dict[str, I64]:
        """Table to its rows that were used since the last call, ascending."""
        found = {
            name: np.flatnonzero(self._used_R[first : first + self._rows[name]])
            for name, first in self._first.items()
            if name in self._rows
        }
        self._used_R[:] = False
        return found
