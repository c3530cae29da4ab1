"""The tables over all ranks: TorchRec's DistributedModelParallel shards the arena by rows.

A lookup sends ids to the ranks that hold their rows and brings sums back; the update runs inside its backward, on the
rank that holds the row, once for all ranks' bags. Every rank calls `lookup` and `update` in every step, with or without
bags of its own. Rank 0 reads and writes whole tables (`weights`, `replaced`), in the host's memory, while the others
`give` and `take` their rows. Never divides gradients by the number of ranks: they are shares of one step's.

Shape suffixes: R rows of the arena, S rows of a shard, N bags, V ids, D embedding dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.comm_ops import set_gradient_division
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.sharding_plan import construct_module_sharding_plan, row_wise
from torchrec.distributed.types import ShardingEnv, ShardingPlan, ShardingType

from streams.metrics import Name
from trainer.config import ModelConfig, OptimizerConfig
from trainer.ids import first_rows
from trainer.ranks.channel import Channel, nobody_lost
from trainer.ranks.place import Place
from trainer.row_uses import RowUses

Part = Literal["weights", "momenta"]
Ask = Literal["weights", "momenta", "replaced"]
_ARENA, _IDS = "arena", "ids"
_WEIGHT: Final = f"embedding_bags.{_ARENA}.weight"
_AT_ONCE: Final = 1 << 16
"""Rows that go between ranks in one message."""


class _RowWise(EmbeddingBagCollectionSharder):  # type: ignore[misc]  # torchrec ships no types
    """TorchRec's sharder hides row-wise sharding on a CPU, where it works when all ranks have as many bags."""

    def sharding_types(self, _compute_device_type: str) -> list[str]:
        return [str(ShardingType.ROW_WISE.value)]


class ShardedTables:
    """A `Tables` whose rows are spread over the ranks."""

    def __init__(
        self,
        model: ModelConfig,
        sharded: DistributedModelParallel,
        place: Place,
        channel: Channel,
        ask: Callable[[Ask], None],
    ) -> None:
        """`ask` tells the followers what rank 0 is about to do with whole tables, so that they do their side."""
        self._place = place
        self._channel = channel
        self._ask = ask
        self._sharded = sharded
        starts = first_rows(model.tables)
        self._ranges = {name: slice(starts[name], starts[name] + table.rows) for name, table in model.tables.items()}
        self._optimizer = sharded.fused_optimizer
        (shard,) = sharded.state_dict()[_WEIGHT].local_shards()
        self._first = shard.metadata.shard_offsets[0]
        self._shards: dict[Part, Tensor] = {"weights": shard.tensor, "momenta": self._momentum_S()}
        self._whole: dict[Part, Tensor] = {}
        self.num_bags = 0
        """The most bags that a rank has in the next lookup: where gloo carries them all must have as many."""

    def lookup(self, ids_V: Tensor, offsets_N1: Tensor, _uses: RowUses | None) -> Tensor:
        self._whole.clear()
        num_bags = len(offsets_N1) - 1
        # A bag at least: kernels have crashed on none.
        padding = offsets_N1[-1:].expand(max(self.num_bags, 1) - num_bags)
        keyed = KeyedJaggedTensor(keys=[_IDS], values=ids_V, offsets=torch.cat([offsets_N1, padding]))
        with nobody_lost():
            output: Tensor = self._sharded(keyed).values()
        return output[:num_bags]

    def update(self, output_ND: Tensor, grad_ND: Tensor, _uses: RowUses | None, learns: Tensor) -> None:
        """`learns` is the same on all ranks. A gradient of zero changes nothing."""
        with nobody_lost():
            output_ND.backward(torch.where(learns, grad_ND, 0))  # type: ignore[no-untyped-call]  # torch ships backward without types

    def set_learning_rate(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        # Hands the rate to the kernels; the update itself is theirs.
        self._optimizer.step()

    def weights(self) -> dict[str, Tensor]:
        """Rank 0 only."""
        return self._named("weights")

    def momenta(self) -> dict[str, Tensor]:
        """Rank 0 only."""
        return self._named("momenta")

    def replaced(self) -> None:
        """Rank 0 only: what was written to the last `weights` and `momenta` goes to the ranks."""
        for part in self._shards:
            self._named(part)
        self._ask("replaced")
        for part, shard in self._shards.items():
            whole = self._whole[part]
            with nobody_lost():
                for rank in range(1, self._place.size):
                    for rows in self._pieces(self._of_rank(whole, rank)):
                        dist.send(rows, dst=rank, group=self._channel.group)
            shard.copy_(self._of_rank(whole, 0))

    def give(self, part: Part) -> None:
        """The other side of `weights` and `momenta`."""
        with nobody_lost():
            for rows in self._pieces(self._shards[part]):
                dist.send(rows.cpu().contiguous(), dst=0, group=self._channel.group)

    def take(self) -> None:
        """The other side of `replaced`."""
        with nobody_lost():
            for shard in self._shards.values():
                for rows in self._pieces(shard):
                    received = torch.empty(rows.shape, dtype=rows.dtype)
                    dist.recv(received, src=0, group=self._channel.group)
                    rows.copy_(received)

    def expect(self, uses: RowUses) -> None:
        """All rows are in memory."""

    def moved(self) -> Mapping[Name, int]:
        """Nothing moves between memory and a file."""
        return {}

    def _named(self, part: Part) -> dict[str, Tensor]:
        if part not in self._whole:
            self._ask(part)
            self._whole[part] = self._gather(part)
        return {name: self._whole[part][rows] for name, rows in self._ranges.items()}

    def _gather(self, part: Part) -> Tensor:
        shard = self._shards[part]
        whole = torch.empty((shard.shape[0] * self._place.size, *shard.shape[1:]), dtype=shard.dtype)
        self._of_rank(whole, 0).copy_(shard)
        with nobody_lost():
            for rank in range(1, self._place.size):
                for rows in self._pieces(self._of_rank(whole, rank)):
                    dist.recv(rows, src=rank, group=self._channel.group)
        return whole

    def _of_rank(self, whole: Tensor, rank: int) -> Tensor:
        num_rows = self._shards["weights"].shape[0]
        return whole[rank * num_rows : (rank + 1) * num_rows]

    def _pieces(self, rows: Tensor) -> tuple[Tensor, ...]:
        return torch.split(rows, _AT_ONCE)

    def _momentum_S(self) -> Tensor:
        state: dict[str, Any] = self._optimizer.state_dict()["state"][_WEIGHT]
        (shard,) = state[f"{_ARENA}.momentum1"].local_shards()
        momentum_S: Tensor = shard.tensor
        return momentum_S


def build_sharded_tables(
    model: ModelConfig,
    optimizer: OptimizerConfig,
    place: Place,
    device: torch.device,
    channel: Channel,
    ask: Callable[[Ask], None],
) -> ShardedTables:
    """Tables of whatever was in memory: rank 0 fills them. A collective call."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType

    # Gradients are shares of one step's, not means of steps of their own.
    set_gradient_division(False)
    num_rows = sum(table.rows for table in model.tables.values())
    # As many rows on every rank; those beyond the tables are never looked up.
    config = EmbeddingBagConfig(
        name=_ARENA,
        embedding_dim=model.dim,
        num_embeddings=-(-num_rows // place.size) * place.size,
        feature_names=[_IDS],
        pooling=PoolingType.SUM,
    )
    bags = EmbeddingBagCollection(tables=[config], device=torch.device("meta"))
    fused = {
        "optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        "learning_rate": optimizer.learning_rate,
        "eps": optimizer.eps,
    }
    sharder = _RowWise(fused_params=fused)
    plan = construct_module_sharding_plan(
        bags,
        {_ARENA: row_wise(compute_kernel="fused")},
        sharder=sharder,
        local_size=place.local_size,
        world_size=place.size,
        device_type=device.type,
    )
    with nobody_lost():
        sharded = DistributedModelParallel(
            bags,
            env=ShardingEnv.from_process_group(dist.group.WORLD),
            device=device,
            plan=ShardingPlan({"": plan}),
            sharders=[sharder],
            init_data_parallel=False,
        )
    return ShardedTables(model, sharded, place, channel, ask)
