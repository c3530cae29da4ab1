"""Everything of a model that every rank has whole: dense parameters, their moments, the count of steps.

Equal on all ranks from the start, and moved by the same numbers in every step, so it is sent once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.model import RecModel
from trainer.ranks.channel import nobody_lost
from trainer.ranks.commands import Commands
from trainer.ranks.messages import Dense


def dense_of(model: RecModel) -> list[Tensor]:
    """The storage itself, in the same order on every rank."""
    parameters = [parameter.detach() for parameter in model.optimizer.parameters]
    return [*parameters, *model.optimizer.state().values(), model.steps]


def send_dense(dense: Sequence[Tensor], commands: Commands) -> None:
    """Rank 0's to all."""
    commands.give(Dense())
    receive_dense(dense)


@torch.no_grad()
def receive_dense(dense: Sequence[Tensor]) -> None:
    """The other side."""
    with nobody_lost():
        for tensor in dense:
            dist.broadcast(tensor, src=0)
