"""One step on all ranks: each trains its own mini-batches, and all learn what one process learns of them together.

Loss and gradients of a rank are shares of the step's: sums over its samples, divided by the weight of all ranks'. The
tables' shares meet in their backward, the dense ones in one all-reduce of a flat tensor, which also carries the loss
and whether anything is not finite. DistributedDataParallel has no part in it: it reduces inside of a backward, and the
step stops its backward in the middle to look. The scores go back to rank 0 in the step's order.

A rank without samples takes part in every collective: it looks nothing up and adds nothing.

Shape suffixes: B samples, T tasks, N bags, D embedding dim, P elements of all dense parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.config import OptimizerConfig
from trainer.model import RecModel
from trainer.ranks.channel import nobody_lost
from trainer.ranks.commands import Commands
from trainer.ranks.messages import Train
from trainer.ranks.part import WholeBatch
from trainer.ranks.place import Place
from trainer.ranks.sharded_tables import ShardedTables
from trainer.step import Gradients, Step, StepResult, Verdict, first_half
from trainer.tensors import StepBatch


@dataclass(frozen=True, slots=True, eq=False)
class SharedResult:
    """What a step leaves on every rank."""

    logits: list[Tensor]
    """[most, T] of each rank, filled up with zeros; on rank 0 only."""
    loss: Tensor
    code: Tensor


class SharedStep:
    """A step, as every rank takes part in it."""

    def __init__(self, model: RecModel, tables: ShardedTables, optimizer: OptimizerConfig, place: Place) -> None:
        self._model = model
        self._tables = tables
        self._config = optimizer
        self._place = place

    def run(self, mine: StepBatch | None, order: Train, tasks: int) -> SharedResult:
        """This rank's part; every rank calls it with the same order."""
        model = self._model
        factor = self._config.rate_factor(int(model.steps))
        model.steps += 1
        weight = torch.tensor(order.weight, dtype=torch.float32, device=model.device)
        self._tables.num_bags = order.bags
        first = self._first_half(None if mine is None else mine.to(model.device), weight, tasks)
        loss, dense, finite = self._reduced(first)
        learns = finite & (weight > 0)
        self._tables.set_learning_rate(self._config.learning_rate * factor)
        self._tables.update(first.looked_up_ND, first.lookup_ND, None, learns)
        model.optimizer.step(dense, factor, learns)
        refused = torch.where(weight > 0, int(Verdict.NOT_FINITE), int(Verdict.NO_WEIGHT))
        return SharedResult(
            self._scores(first.logits_BT, order.samples),
            torch.where(learns, loss, torch.nan),
            torch.where(learns, int(Verdict.LEARNED), refused),
        )

    def _first_half(self, mine: StepBatch | None, weight: Tensor, tasks: int) -> Gradients:
        """The shares of this rank; nothing but the lookup where it has no samples."""
        model = self._model
        if mine is not None and mine.num_samples:
            return first_half(model, mine, self._config.clip_norm, weight)
        no_ids = torch.empty(0, dtype=torch.int64, device=model.device)
        looked_up_ND = self._tables.lookup(no_ids, torch.zeros(1, dtype=torch.int64, device=model.device), None)
        return Gradients(
            torch.empty(0, tasks, device=model.device),
            weight.new_zeros(()),
            weight > 0,
            looked_up_ND,
            torch.zeros_like(looked_up_ND),
            tuple(torch.zeros_like(parameter) for parameter in model.optimizer.parameters),
        )

    def _reduced(self, first: Gradients) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """Loss and dense gradients of the whole step, and whether all of it is finite, on every rank."""
        # Infinities of two ranks can cancel out or hide in a sum: each rank's own word is counted.
        wrong = (~first.all_finite()).to(torch.float32)
        flat = torch.cat([*(grad.reshape(-1) for grad in first.dense), first.loss.reshape(1), wrong.reshape(1)])
        with nobody_lost():
            dist.all_reduce(flat)
        sizes = [grad.numel() for grad in first.dense]
        *dense, loss, wrong = torch.split(flat, [*sizes, 1, 1])
        squares = torch.stack([loss[0], *(grad.square().sum() for grad in dense)])
        return loss[0], tuple(dense), squares.isfinite().all() & (wrong[0] == 0)

    def _scores(self, logits_BT: Tensor, most: int) -> list[Tensor]:
        padded = logits_BT.new_zeros(most, logits_BT.shape[1])
        padded[: len(logits_BT)] = logits_BT
        everyone = [torch.empty_like(padded) for _ in range(self._place.size)] if self._place.leads else None
        with nobody_lost():
            dist.gather(padded, everyone, dst=0)
        return everyone or []


class LeadingStep(Step):
    """Rank 0's `Step`: it tells the others to take theirs, and gets everyone's scores."""

    def __init__(self, model: RecModel, optimizer: OptimizerConfig, shared: SharedStep, commands: Commands) -> None:
        super().__init__(model, optimizer)
        self._shared = shared
        self._commands = commands

    def run(self, batch: StepBatch) -> StepResult:
        """Score the batch of all ranks, then learn from it."""
        assert isinstance(batch, WholeBatch), "the leading composer makes these"
        order = Train(seed=torch.initial_seed(), weight=batch.weight, bags=batch.bags, samples=batch.most)
        self._commands.give(order)
        shared = self._shared.run(batch.mine, order, batch.labels_BT.shape[1])
        padded_B = batch.padded_B.to(shared.loss.device, non_blocking=True)
        return StepResult(torch.cat(shared.logits)[padded_B], shared.loss, shared.code)
