"""RecModel: tables, net and dense optimizer under one flat state.

Owns the names under which weights and optimizer state are stored, and the refusal of any other. Never
decides when to learn: that is `step`.

Shape suffixes: B samples, T tasks.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from streams.errors import InvariantError
from streams.events.schema import EventSchema
from trainer.config import ModelConfig, OptimizerConfig
from trainer.jagged_ops import FbgemmOps
from trainer.net import Net, build_net
from trainer.optimizer import DenseOptimizer, build_dense_optimizer
from trainer.tables import Tables, Tier, build_plain_tables, build_tables
from trainer.tensors import StepBatch


class RecModel:
    """What a checkpoint holds of the model and a step changes."""

    def __init__(self, tables: Tables, net: Net, optimizer: DenseOptimizer, device: torch.device) -> None:
        self.tables = tables
        self.net = net
        self.optimizer = optimizer
        self.device = device
        self.steps = torch.zeros((), dtype=torch.int64)
        """Steps of the lineage, skipped ones included: the clock of the warm-up. On the host."""

    @torch.no_grad()
    def predict(self, batch: StepBatch) -> Tensor:
        """[B, T] logits; learns nothing."""
        batch = batch.to(self.device)
        logits_BT: Tensor = self.net(self.tables.lookup(batch.ids_V, batch.offsets_N1, batch.uses), batch)
        return logits_BT

    def state(self) -> dict[str, Tensor]:
        """Flat names to the storage itself, weights and optimizer state; copy before the next step.

        `table.T` rows, `table_momentum.T` their second moments, `dense.*` parameters, `dense_optimizer.*`
        their moments, `steps`.
        """
        return (
            {f"table.{name}": rows for name, rows in self.tables.weights().items()}
            | {f"table_momentum.{name}": rows for name, rows in self.tables.momenta().items()}
            | {f"dense.{name}": parameter.detach() for name, parameter in self.net.named_parameters()}
            | {f"dense_optimizer.{name}": moment for name, moment in self.optimizer.state().items()}
            | {"steps": self.steps}
        )

    @torch.no_grad()
    def load_state(self, stored: Mapping[str, Tensor]) -> None:
        """Take over a state whole, or raise InvariantError that names every difference and change nothing."""
        own = self.state()
        wrong = [f"{name} is missing" for name in own if name not in stored]
        wrong += [f"{name} is unexpected" for name in stored if name not in own]
        for name in own.keys() & stored.keys():
            mine, theirs = own[name], stored[name]
            if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
                wrong.append(
                    f"{name} is {theirs.dtype} {list(theirs.shape)} in the state, "
                    f"{mine.dtype} {list(mine.shape)} in this model"
                )
        if wrong:
            raise InvariantError(
                "the stored state is not of this model: " + "; ".join(sorted(wrong)) + ". Restore the "
                "configuration that it was trained under, or migrate the checkpoint"
            )
        for name, tensor in own.items():
            tensor.copy_(stored[name])
        self.tables.replaced()


def build_model(
    schema: EventSchema,
    model: ModelConfig,
    optimizer: OptimizerConfig,
    seed: int,
    device: torch.device | str = "cpu",
    tier: Tier | None = None,
    tables: Tables | None = None,
) -> RecModel:
    """A fresh model; every initial weight is decided by the seed. `tier`: where not all rows fit into memory.

    `tables`: these, whose rows are somebody else's to fill.
    """
    model.check_against(schema)
    place = torch.device(device)
    net = _seeded_net(schema, model, seed).to(place)
    tables = tables or build_tables(model, optimizer, seed, place, tier)
    return RecModel(tables, net, build_dense_optimizer(net, optimizer), place)


def build_plain_model(
    schema: EventSchema, model: ModelConfig, optimizer: OptimizerConfig, seed: int, dtype: torch.dtype = torch.float64
) -> RecModel:
    """The same model from the same initial weights, its tables in plain torch: in any dtype, on the CPU."""
    model.check_against(schema)
    net = _seeded_net(schema, model, seed).to(dtype)
    tables = build_plain_tables(model, optimizer, seed, dtype)
    return RecModel(tables, net, build_dense_optimizer(net, optimizer), torch.device("cpu"))


def _seeded_net(schema: EventSchema, model: ModelConfig, seed: int) -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_net(schema, model, FbgemmOps())
