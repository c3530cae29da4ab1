"""The embedding tables: one lookup per step over all of them, and an update that happens inside its backward.

All tables lie one after the other in one arena, and the bags of every feature go through a single forward: a
row that a step uses in several places (candidate, item feature and history share a table) gets one gradient
and one update. Row-wise Adagrad over two forwards would update it twice. Never maps ids and never pools
beyond the sum of a bag.

Five implementations: fbgemm's table-batched embedding, ours on a CPU (`host_tables`), the same with most rows in a file
(`cache`), TorchRec's over several ranks (`ranks`), and plain torch for any dtype (the oracle of parity).

Shape suffixes: R rows of the arena, N bags, V ids, D embedding dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import torch
from torch import Tensor

from streams.metrics import Name
from trainer.arena import Arena
from trainer.cache.cold_file import ColdFile
from trainer.cache.cold_rows import ColdRows, num_places
from trainer.cache.tables import CachedTables
from trainer.config import ModelConfig, OptimizerConfig, TableConfig
from trainer.host_tables import HostTables
from trainer.ids import table_seed
from trainer.row_uses import RowUses

if TYPE_CHECKING:
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import SplitTableBatchedEmbeddingBagsCodegen


_AT_ONCE: Final = 1 << 16
"""Rows that are made at once: a table may be larger than memory."""


class Tables(Protocol):
    """What a step needs of the tables."""

    def lookup(self, ids_V: Tensor, offsets_N1: Tensor, uses: RowUses) -> Tensor:
        """[N, D], the sum of each bag; 0 for an empty one. Call it once per step. `uses` are those of the ids."""

    def update(self, output_ND: Tensor, grad_ND: Tensor, uses: RowUses, learns: Tensor) -> None:
        """The row-wise Adagrad step that gradient `grad_ND` of a lookup's output asks for; none unless it `learns`.

        `uses` are those of the last lookup. `learns` is a boolean on the device, and is not waited for there.
        """

    def set_learning_rate(self, rate: float) -> None: ...

    def weights(self) -> dict[str, Tensor]:
        """Table name to [rows, D], the storage itself, up to the next lookup. Who writes to it says so: `replaced`."""

    def momenta(self) -> dict[str, Tensor]:
        """Table name to [rows], likewise: mean squared gradients, summed over all steps."""

    def expect(self, uses: RowUses) -> None:
        """The lookup after the next one will use these rows: they may be read ahead. Say it before the next one."""

    def replaced(self) -> None:
        """Storage was written from outside."""

    def moved(self) -> Mapping[Name, int]:
        """What has moved between memory and a file since the last call, by metric."""


class FbgemmTables(Arena):
    """fbgemm's table-batched embedding with its fused update."""

    def __init__(self, tables: Mapping[str, TableConfig], batched: SplitTableBatchedEmbeddingBagsCodegen) -> None:
        (weight_RD,) = batched.split_embedding_weights()
        ((momentum_R,),) = batched.split_optimizer_states()
        super().__init__(tables, weight_RD, momentum_R)
        self._batched = batched

    def lookup(self, ids_V: Tensor, offsets_N1: Tensor, _uses: RowUses) -> Tensor:
        output_ND: Tensor = self._batched(ids_V, offsets_N1)
        return output_ND

    def update(self, output_ND: Tensor, grad_ND: Tensor, _uses: RowUses, learns: Tensor) -> None:
        # The fused update runs inside backward: a guard behind it would come too late.
        output_ND.backward(torch.where(learns, grad_ND, 0))  # type: ignore[no-untyped-call]  # torch ships backward without types

    def set_learning_rate(self, rate: float) -> None:
        self._batched.set_learning_rate(rate)


class PlainTables(Arena):
    """The same in plain torch: a dense gradient of the whole arena, so for small tables only."""

    def __init__(self, tables: Mapping[str, TableConfig], weight_RD: Tensor, optimizer: OptimizerConfig) -> None:
        super().__init__(tables, weight_RD.requires_grad_(), torch.zeros_like(weight_RD[:, 0]))
        self._rate = optimizer.learning_rate
        self._eps = optimizer.eps

    def lookup(self, ids_V: Tensor, offsets_N1: Tensor, _uses: RowUses) -> Tensor:
        return torch.nn.functional.embedding_bag(
            ids_V, self.weight_RD, offsets_N1, mode="sum", include_last_offset=True
        )

    def update(self, output_ND: Tensor, grad_ND: Tensor, _uses: RowUses, learns: Tensor) -> None:
        (grad_RD,) = torch.autograd.grad(output_ND, self.weight_RD, torch.where(learns, grad_ND, 0))
        with torch.no_grad():
            self.momentum_R += grad_RD.square().mean(1)
            self.weight_RD -= self._rate * grad_RD / (self.momentum_R.sqrt() + self._eps)[:, None]

    def set_learning_rate(self, rate: float) -> None:
        self._rate = rate

    def weights(self) -> dict[str, Tensor]:
        return {name: rows.detach() for name, rows in super().weights().items()}


@dataclass(frozen=True, slots=True)
class Tier:
    """How many rows are in memory, and where the others are."""

    hot_rows: int
    cold_directory: Path


def build_tables(
    model: ModelConfig, optimizer: OptimizerConfig, seed: int, device: torch.device, tier: Tier | None = None
) -> Tables:
    """Fresh tables on a device, initial rows decided by (seed, table name) alone. `tier`: on a CPU only."""
    num_rows = sum(table.rows for table in model.tables.values())
    if device.type != "cpu":
        tables: Tables = build_fbgemm_tables(model, optimizer, device)
    elif tier is None:
        tables = HostTables(model.tables, torch.empty(num_rows, model.dim), optimizer)
    else:
        file = ColdFile(tier.cold_directory, num_places(num_rows), model.dim)
        tables = CachedTables(model.tables, ColdRows(file, num_rows), min(tier.hot_rows, num_rows), optimizer)
    init_rows(tables, model.tables, seed)
    return tables


def build_fbgemm_tables(model: ModelConfig, optimizer: OptimizerConfig, device: torch.device) -> FbgemmTables:
    """Tables of zeros in fbgemm's table-batched embedding: what a GPU trains, and what a CPU is compared with."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import (
        BoundsCheckMode,
        EmbeddingLocation,
        PoolingMode,
    )
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    on_gpu = device.type == "cuda"
    place = EmbeddingLocation.DEVICE if on_gpu else EmbeddingLocation.HOST
    compute = ComputeDevice.CUDA if on_gpu else ComputeDevice.CPU
    batched = SplitTableBatchedEmbeddingBagsCodegen(
        [(sum(table.rows for table in model.tables.values()), model.dim, place, compute)],
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=optimizer.learning_rate,
        eps=optimizer.eps,
        pooling_mode=PoolingMode.SUM,
        device=device,
        # Rows are in range by construction. The default would only warn, and then train row 0.
        bounds_check_mode=BoundsCheckMode.FATAL,
    )
    return FbgemmTables(model.tables, batched)


def build_plain_tables(model: ModelConfig, optimizer: OptimizerConfig, seed: int, dtype: torch.dtype) -> PlainTables:
    """The same initial rows in plain torch on the CPU."""
    num_rows = sum(table.rows for table in model.tables.values())
    tables = PlainTables(model.tables, torch.zeros(num_rows, model.dim, dtype=dtype), optimizer)
    init_rows(tables, model.tables, seed)
    return tables


def init_rows(tables: Tables, configs: Mapping[str, TableConfig], seed: int) -> None:
    """Uniform rows from a generator of each table's own: another table more changes none of them."""
    for name, weight_RD in tables.weights().items():
        generator = torch.Generator().manual_seed((seed ^ table_seed(name)) & (2**63 - 1))
        scale = configs[name].init_scale
        for rows_RD in torch.split(weight_RD, _AT_ONCE):
            rows_RD.copy_(torch.rand(rows_RD.shape, generator=generator).mul_(2 * scale).sub_(scale))
    tables.replaced()
