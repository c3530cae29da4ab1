"""The tables on a CPU: a lookup by torch, and an update of each distinct row in one pass.

fbgemm's fused backward sorts the ids of a step while the step waits, on one core; here they come sorted (`row_uses`),
and every row is read, summed and written once, on all threads of the step. Equal to fbgemm's within the order of sums.

Shape suffixes: R rows of the arena, N bags, V ids, X distinct rows, D embedding dim.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainer.arena import Arena
from trainer.config import OptimizerConfig, TableConfig
from trainer.host_threads import in_parts
from trainer.row_update import update_rows
from trainer.row_uses import RowUses

I64 = npt.NDArray[np.int64]


class Updater:
    """Runs the update on as many threads as torch uses."""

    def __init__(self, eps: float) -> None:
        self._eps = np.float32(eps)

    def run(self, weight: Tensor, momentum: Tensor, grad_ND: Tensor, uses: RowUses, places_X: I64, rate: float) -> None:
        """Update row `places_X[x]` of `weight` and `momentum` with the gradients of `uses.rows_X[x]`."""
        where = places_X, uses.starts_X1, uses.bag_V
        arrays = weight.numpy(), momentum.numpy(), grad_ND.contiguous().numpy(), where, np.float32(rate), self._eps
        # Parts of about as many ids each: rows differ in how often they are used.
        in_parts(update_rows, arrays, uses.starts_X1)


class HostTables(Arena):
    """Tables in the memory of the host, in float32."""

    def __init__(self, tables: Mapping[str, TableConfig], weight_RD: Tensor, optimizer: OptimizerConfig) -> None:
        super().__init__(tables, weight_RD, torch.zeros(len(weight_RD)))
        self._rate = optimizer.learning_rate
        self._updater = Updater(optimizer.eps)

    def lookup(self, ids_V: Tensor, offsets_N1: Tensor, _uses: RowUses) -> Tensor:
        return torch.nn.functional.embedding_bag(
            ids_V, self.weight_RD, offsets_N1, mode="sum", include_last_offset=True
        )

    def update(self, _output_ND: Tensor, grad_ND: Tensor, uses: RowUses, learns: Tensor) -> None:
        if bool(learns):  # No wait: everything here is on the host.
            self._updater.run(self.weight_RD, self.momentum_R, grad_ND, uses, uses.rows_X, self._rate)

    def set_learning_rate(self, rate: float) -> None:
        self._rate = rate
