"""How the labels of a step's samples came about, and what the loss and the metrics make of it.

Owns the correction for negatives that were sampled out, and the loss of samples whose labels may still turn. Never
chooses samples and never sees features.

Negatives sampled out. The model is to predict for the stream as it happened, of which a share `rate` of the negatives
is trained. With one task the loss is taken of logit - log(rate): that is the logit of the sampled stream, since
sampling multiplies the odds by 1 / rate (prior correction; King and Zeng 2001). With several tasks "without any
positive label" is no property of one task, so an offset would be wrong; there each kept negative weighs 1 / rate.

Labels that may turn. What left as PROVISIONAL comes as a negative first, and as a positive once it turns, so that
positives are 1 / (1 + p) short. The fake-negative-weighted loss (Ktena et al. 2019, arXiv 1907.06558) makes up for it
with the model's own p, through which no gradient flows: positives weigh 1 + p, negatives (1 - p)(1 + p). It presumes
that every positive came as a negative before. One that was known when its sample left has no such copy in the
stream, so both terms are taken of it at once: left out, predictions would be p / (1 - share known · p).

Shape suffixes: B samples, T tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from streams.minibatch import MiniBatch
from streams.stage import Stage


@dataclass(frozen=True, slots=True, eq=False)
class Labelling:
    """What is to be known of the samples of a step beside their labels. All None: nothing."""

    stage_B1: Tensor | None = None
    """`Stage`; None where all are settled."""
    offset_B1: Tensor | None = None
    """-log(rate), added to logits in the loss; None where nothing was sampled out, and with several tasks."""
    stands_for_B1: Tensor | None = None
    """Samples of the stream as it happened that each one stands for: 1 / rate for a negative, else 1. None: 1 each."""

    def to(self, device: torch.device) -> Labelling:
        """The same on a device."""
        columns = (self.stage_B1, self.offset_B1, self.stands_for_B1)
        return Labelling(*(None if each is None else each.to(device, non_blocking=True) for each in columns))

    def weights_BT(self, known_BT: Tensor, dtype: torch.dtype) -> Tensor:
        """Weight of each label in the loss, apart from what turning labels make of it; `known_BT` is 0 or 1."""
        known = known_BT.to(dtype)
        if self.stands_for_B1 is None or self.offset_B1 is not None:
            return known
        return known * self.stands_for_B1.to(dtype)

    def loss_BT(self, logits_BT: Tensor, labels_BT: Tensor) -> Tensor:
        """Loss of each label."""
        dtype = logits_BT.dtype
        labels_BT = labels_BT.to(dtype)
        trained_BT = logits_BT if self.offset_B1 is None else logits_BT + self.offset_B1.to(dtype)
        if self.stage_B1 is None:
            return binary_cross_entropy_with_logits(trained_BT, labels_BT, reduction="none")
        turns_B1 = self.stage_B1 != int(Stage.SETTLED)
        both_B1 = (self.stage_B1 == int(Stage.PROVISIONAL)).to(dtype)
        if self.offset_B1 is not None:
            # The negative copy that a positive would have had is one of those that are sampled.
            both_B1 = both_B1 * torch.exp(-self.offset_B1.to(dtype))
        p_BT = torch.sigmoid(logits_BT.detach())
        positive_BT = torch.where(turns_B1, 1 + p_BT, 1) * labels_BT
        negative_BT = torch.where(
            turns_B1, (1 - p_BT) * (1 + p_BT) * (1 - labels_BT + both_B1 * labels_BT), 1 - labels_BT
        )
        return positive_BT * softplus(-trained_BT) + negative_BT * softplus(trained_BT)


def labelling_of(
    batches: Sequence[MiniBatch], labels_BT: npt.NDArray[np.float32], *, correct_sampling: bool
) -> Labelling:
    """Of the samples of these mini-batches, one after the other, whose labels are `labels_BT`."""
    stage = offset = stands_for = None
    if not all(batch.all_settled for batch in batches):
        stage = torch.from_numpy(np.concatenate([batch.stages for batch in batches]))[:, None]
    if correct_sampling and any(batch.negative_rate != 1.0 for batch in batches):
        rate_B = np.concatenate([np.full(len(batch), batch.negative_rate) for batch in batches])
        negative_B = ~np.any(labels_BT > 0.5, axis=1)
        stands_for = torch.from_numpy(np.where(negative_B, 1 / rate_B, 1.0))[:, None]
        if labels_BT.shape[1] == 1:
            offset = torch.from_numpy(-np.log(rate_B))[:, None]
    return Labelling(stage, offset, stands_for)
