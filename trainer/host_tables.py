"""The tables on a CPU: a lookup by torch, and an update of each distinct row in one pass.

fbgemm's fused backward sorts the ids of a step while the step waits, on one core; here they come sorted (`row_uses`),
and every row is read, summed and written once, on all threads of the step. Equal to fbgemm's within the order of sums.

Shape suffixes: R rows of the arena, N bags, V ids, X distinct rows, D embedding dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from trainer.arena import Arena
from trainer.config import OptimizerConfig, TableConfig
from trainer.row_update import update_rows
from trainer.row_uses import RowUses


class HostTables(Arena):
    """Tables in the memory of the host, in float32."""

    def __init__(self, tables: Mapping[str, TableConfig], weight_RD: Tensor, optimizer: OptimizerConfig) -> None:
        super().__init__(tables, weight_RD, torch.zeros(len(weight_RD)))
        self._rate = optimizer.learning_rate
        self._eps = optimizer.eps
        self._pool = ThreadPoolExecutor(thread_name_prefix="recd-tables")

    def lookup(self, ids_V: Tensor, offsets_N1: Tensor) -> Tensor:
        return torch.nn.functional.embedding_bag(
            ids_V, self.weight_RD, offsets_N1, mode="sum", include_last_offset=True
        )

    def update(self, _output_ND: Tensor, grad_ND: Tensor, uses: RowUses, learns: Tensor) -> None:
        if not bool(learns):  # No wait: everything here is on the host.
            return
        threads = torch.get_num_threads()
        # Parts of about as many ids each: rows differ in how often they are used.
        cuts = np.searchsorted(uses.starts_X1, np.linspace(0, len(uses.bag_V), threads + 1))
        cuts[-1] = uses.num_rows
        weight, momentum, grad = self.weight_RD.numpy(), self.momentum_R.numpy(), grad_ND.contiguous().numpy()
        rate, eps = np.float32(self._rate), np.float32(self._eps)
        parts = [
            (weight, momentum, grad, (uses.rows_X, uses.starts_X1, uses.bag_V), first, last, rate, eps)
            for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
            if first < last
        ]
        others = [self._pool.submit(update_rows, *part) for part in parts[1:]]
        if parts:
            update_rows(*parts[0])
        for other in others:
            other.result()

    def set_learning_rate(self, rate: float) -> None:
        self._rate = rate
