"""The tables of a CPU whose rows do not all fit into memory: hot rows in slots, all others in a file.

A step's rows become hot before its lookup, learn in their slots, and go home when others need the place. Nothing is
looked up or updated anywhere else, so an update is never lost and never overtaken: the same steps give the same bits as
with all rows in memory. Where the next step is known, its rows are read while this one is computed (`traffic`).

Shape suffixes: R rows of the arena, C slots, N bags, V ids, X distinct rows, D embedding dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from streams.metrics import Name
from trainer.arena import Arena
from trainer.cache.cold_rows import ColdRows
from trainer.cache.directory import Directory
from trainer.cache.traffic import Traffic
from trainer.config import OptimizerConfig, TableConfig
from trainer.host_tables import Updater
from trainer.row_uses import RowUses

_NO_ROWS: Final = np.zeros(0, np.int64)


@dataclass(slots=True)
class CacheCounts:
    """What the cache has done since the start."""

    asked: int = 0
    """Ids looked up."""
    distinct: int = 0
    """Distinct rows of a step, summed over steps: what each step needs once."""
    missing: int = 0
    """Of these, rows that were not hot and came from the file."""
    ahead: int = 0
    """Of the missing ones, rows that had been read while the step before was computed: nobody waited for them."""
    evicted: int = 0
    """Rows that went home to make room."""


class CachedTables(Arena):
    """Hot rows over a cold file."""

    def __init__(
        self, tables: Mapping[str, TableConfig], cold: ColdRows, num_slots: int, optimizer: OptimizerConfig
    ) -> None:
        weight_RD, momentum_R = cold.whole()
        super().__init__(tables, weight_RD, momentum_R)
        self.counts = CacheCounts()
        self._told: dict[Name, int] = {}
        self._cold = cold
        num_rows, dim = weight_RD.shape
        self._traffic = Traffic(cold, dim)
        self._expected: RowUses | None = None
        self._directory = Directory(num_rows, num_slots)
        self._weight_CD = torch.zeros(num_slots, dim)
        self._momentum_C = torch.zeros(num_slots)
        self._slot_X = self._directory.resident()[1]
        self._rate = optimizer.learning_rate
        self._updater = Updater(optimizer.eps)

    def lookup(self, ids_V: Tensor, offsets_N1: Tensor, uses: RowUses) -> Tensor:
        self._admit(uses)
        self.counts.asked += len(ids_V)
        slots_V = torch.from_numpy(self._directory.slot_of_row)[ids_V]
        return torch.nn.functional.embedding_bag(
            slots_V, self._weight_CD, offsets_N1.to(torch.int32), mode="sum", include_last_offset=True
        )

    def update(self, _output_ND: Tensor, grad_ND: Tensor, uses: RowUses, learns: Tensor) -> None:
        if bool(learns):  # No wait: everything here is on the host.
            self._updater.run(self._weight_CD, self._momentum_C, grad_ND, uses, self._slot_X, self._rate)

    def set_learning_rate(self, rate: float) -> None:
        self._rate = rate

    def weights(self) -> dict[str, Tensor]:
        self._send_home()
        return super().weights()

    def momenta(self) -> dict[str, Tensor]:
        self._send_home()
        return super().momenta()

    def expect(self, uses: RowUses) -> None:
        self._expected = uses

    def wait(self) -> None:
        """Until nothing is on its way to or from the file: nobody needs it but who measures."""
        self._traffic.wait()

    def replaced(self) -> None:
        """What is hot is of before."""
        self._traffic.forget()
        self._cold.reset()
        self._directory.forget()

    def moved(self) -> Mapping[Name, int]:
        now: dict[Name, int] = {
            "recd_cache_asked_ids_total": self.counts.asked,
            "recd_cache_distinct_rows_total": self.counts.distinct,
            "recd_cache_missing_rows_total": self.counts.missing,
            "recd_cache_ahead_rows_total": self.counts.ahead,
            "recd_cache_evicted_rows_total": self.counts.evicted,
        }
        new: dict[Name, int] = {name: rows - self._told.get(name, 0) for name, rows in now.items()}
        self._told = now
        return new

    def _admit(self, uses: RowUses) -> None:
        self._traffic.wait()
        admission = self._directory.admit(uses.rows_X)
        leave, come = (admission.evicted_E, admission.out_of_E), (admission.missing_M, admission.into_M)
        ahead = self._traffic.swap(leave, come, (self._weight_CD.numpy(), self._momentum_C.numpy()))
        self._slot_X = admission.slot_X
        self.counts.distinct += uses.num_rows
        self.counts.missing += len(admission.missing_M)
        self.counts.ahead += ahead
        self.counts.evicted += len(admission.evicted_E)
        expected, self._expected = self._expected, None
        self._traffic.go(self._directory.missing(_NO_ROWS if expected is None else expected.rows_X))

    def _send_home(self) -> None:
        """Bring the file up to date, every row in its own place; what is hot stays hot."""
        self._traffic.forget()
        self._cold.whole()
        rows, slots = self._directory.resident()
        self.weight_RD[rows] = self._weight_CD[slots]
        self.momentum_R[rows] = self._momentum_C[slots]
