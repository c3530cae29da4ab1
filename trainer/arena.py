"""All tables one after the other in one tensor, and the range of rows that each has.

Owns the names of the ranges; what is looked up and how rows learn is each implementation's own.

Shape suffixes: R rows of the arena, D embedding dim.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from streams.metrics import Name
from trainer.config import TableConfig
from trainer.ids import first_rows
from trainer.row_uses import RowUses


class Arena:
    """Names for the row ranges of the arena."""

    def __init__(self, tables: Mapping[str, TableConfig], weight_RD: Tensor, momentum_R: Tensor) -> None:
        starts = first_rows(tables)
        self._ranges = {name: slice(starts[name], starts[name] + config.rows) for name, config in tables.items()}
        self.weight_RD = weight_RD
        self.momentum_R = momentum_R

    def weights(self) -> dict[str, Tensor]:
        return {name: self.weight_RD[rows] for name, rows in self._ranges.items()}

    def momenta(self) -> dict[str, Tensor]:
        return {name: self.momentum_R[rows] for name, rows in self._ranges.items()}

    def replaced(self) -> None:
        """Storage was written from outside: here nothing is kept beside it."""

    def expect(self, uses: RowUses) -> None:
        """The lookup after the next one uses these rows: here all are in memory."""

    def moved(self) -> Mapping[Name, int]:
        """What has moved between memory and a file since the last call, by metric: nothing, where there is no file."""
        return {}
