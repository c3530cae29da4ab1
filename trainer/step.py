"""One step: predict, score, then learn, in two halves of a backward.

The first half goes from the loss down to the output of the lookup. A flag on the device then decides: where loss and
gradients are finite the tables and the dense parameters are updated; where they are not nothing changes, bit for bit.
The step has no host sync on a GPU; whoever wants the verdict reads it one step later.

Shape suffixes: B samples, T tasks, N bags, D embedding dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial

import torch
from torch import Tensor

from trainer.config import OptimizerConfig
from trainer.model import RecModel
from trainer.tensors import StepBatch


class Verdict(IntEnum):
    """What became of a step. Values are stored in ledgers: never renumber."""

    LEARNED = 0
    """The model has changed."""
    NOT_FINITE = 1
    """Loss or a gradient was infinite or not a number: nothing has changed."""
    NO_WEIGHT = 2
    """No sample had a label and a weight: nothing has changed, and there is no loss."""
    PAUSED = 3
    """Labels do not come as they should (`stall`): scored only, nothing has changed."""


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What a step leaves behind, still on the device."""

    logits_BT: Tensor
    """Scores from before the update."""
    loss: Tensor
    """Weighted mean binary cross entropy; not a number unless the verdict is LEARNED."""
    code: Tensor
    """The verdict as a number."""

    def verdict(self) -> Verdict:
        """Waits for the device: call it after the next step has been launched."""
        return Verdict(int(self.code.item()))


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """The first half of a backward."""

    logits_BT: Tensor
    loss: Tensor
    has_weight: Tensor
    looked_up_ND: Tensor
    """Output of the lookup, through which the tables learn."""
    lookup_ND: Tensor
    """Gradient of the output of the lookup."""
    dense: tuple[Tensor, ...]
    """Gradient of each dense parameter."""

    def all_finite(self) -> Tensor:
        """A boolean on the device: loss and the square of every gradient are finite.

        A finite loss is no proof: a gradient can be infinite under it. Neither is a finite gradient: where its
        square overflows, an infinite second moment would stop that parameter for good.
        """
        squares = [grad.square().sum() for grad in (self.lookup_ND, *self.dense)]
        return torch.stack([self.loss, *squares]).isfinite().all()


class Step:
    """Runs steps on one model."""

    def __init__(self, model: RecModel, optimizer: OptimizerConfig) -> None:
        self._model = model
        self._config = optimizer

    def run(self, batch: StepBatch) -> StepResult:
        """Score the batch, then learn from it."""
        model = self._model
        batch = batch.to(model.device)
        factor = self._config.rate_factor(int(model.steps))
        model.steps += 1
        if batch.num_samples == 0:
            return self._empty(batch)
        first = first_half(model, batch, self._config.clip_norm)
        learns = first.all_finite() & first.has_weight
        model.tables.set_learning_rate(self._config.learning_rate * factor)
        model.tables.update(first.looked_up_ND, first.lookup_ND, batch.uses, learns)
        model.optimizer.step(first.dense, factor, learns)
        refused = torch.where(first.has_weight, int(Verdict.NOT_FINITE), int(Verdict.NO_WEIGHT))
        return StepResult(
            first.logits_BT,
            torch.where(learns, first.loss, torch.nan),
            torch.where(learns, int(Verdict.LEARNED), refused),
        )

    def score(self, batch: StepBatch) -> StepResult:
        """Score the batch without learning from it."""
        self._model.steps += 1
        logits_BT = self._model.predict(batch) if batch.num_samples else batch.labels_BT
        return StepResult(logits_BT, torch.tensor(torch.nan), torch.tensor(int(Verdict.PAUSED)))

    def _empty(self, batch: StepBatch) -> StepResult:
        """Kernels have crashed on batches without rows: they never see one."""
        nothing = torch.tensor(torch.nan), torch.tensor(int(Verdict.NO_WEIGHT))
        return StepResult(batch.labels_BT, *nothing)


def first_half(model: RecModel, batch: StepBatch, clip_norm: float = 0.0, weight: Tensor | None = None) -> Gradients:
    """Forward, and backward down to the output of the lookup; changes nothing. `clip_norm` is `OptimizerConfig`'s.

    `weight`: of the whole step, where the batch is a part of it; loss and gradients are then shares of the step's.
    """
    looked_up_ND = model.tables.lookup(batch.ids_V, batch.offsets_N1, batch.uses)
    leaf_ND = looked_up_ND.detach().requires_grad_()
    sparse_BFD = model.net.sparse(leaf_ND, batch)
    logits_BT = model.net.mix(sparse_BFD, batch)
    weights_BT = batch.labelling.weights_BT(batch.weights_BT, logits_BT.dtype)
    weight = weights_BT.sum() if weight is None else weight
    if clip_norm:
        clip = partial(clipped, weight=weight, norm=clip_norm)
        sparse_BFD.register_hook(clip)  # type: ignore[no-untyped-call]  # torch ships hooks without types
    loss = weighted_loss(logits_BT, batch, weights_BT, weight)
    grads = torch.autograd.grad(loss, [leaf_ND, *model.optimizer.parameters], allow_unused=True, materialize_grads=True)
    return Gradients(logits_BT.detach(), loss.detach(), weight > 0, looked_up_ND, grads[0], grads[1:])


def clipped(grad_BFD: Tensor, *, weight: Tensor, norm: float) -> Tensor:
    """Each sample's gradient, shortened to `norm` over `weight`: before samples that share a row are summed.

    A sample has a share of one in the batch's weight, so the limit is of its own loss, whatever the size of the batch.
    What is not finite stays so, for the verdict to see.
    """
    length_B = grad_BFD.flatten(1).norm(dim=1) * weight
    shortened_BFD: Tensor = grad_BFD * (norm / length_B.clamp(min=norm))[:, None, None]
    return shortened_BFD


def weighted_loss(logits_BT: Tensor, batch: StepBatch, weights_BT: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean of the losses (`labelling`) of samples and tasks; 0 where there is no weight at all."""
    summed = (batch.labelling.loss_BT(logits_BT, batch.labels_BT) * weights_BT).sum()
    return summed / torch.where(weight > 0, weight, 1)
