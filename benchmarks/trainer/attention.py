"""Target attention alone: candidates of a session ask one history, or a copy of it each.

Owns the case: ragged sessions of 1 to 40 samples, 8 on average, histories of 1 to 100 ids. The baseline is the same
module on a history for every sample, padded in the same way; answers and gradients are compared before either is timed.

Shapes: B samples, U sessions, V ids, D embedding dim.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor

from benchmarks.trainer.streams import ragged
from trainer.attention_plan import plan_attention
from trainer.jagged_ops import FbgemmOps
from trainer.target_attention import TargetAttention, asking_of

MEAN_SAMPLES: Final = 8
MOST_SAMPLES: Final = 40
LONGEST: Final = 100
DIM: Final = 64
HEADS: Final = 4

Run = Callable[[], list[Tensor]]


def runs(num_samples: int, seed: int) -> tuple[Run, Run, float]:
    """Forward and backward, on distinct histories and on a copy a sample; how many ids a distinct one stands for."""
    rng = np.random.default_rng(seed)
    sizes = ragged(MEAN_SAMPLES, MOST_SAMPLES, num_samples, seed)
    lengths_U = rng.integers(1, LONGEST, len(sizes), endpoint=True)
    inverse_B = np.repeat(np.arange(len(sizes)), sizes)
    torch.manual_seed(seed)
    module = TargetAttention(DIM, HEADS, LONGEST)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    rows_U = torch.split(torch.randn(int(lengths_U.sum()), DIM), lengths_U.tolist())
    candidate_BD, grad_BD = torch.randn(num_samples, DIM), torch.randn(num_samples, DIM)

    def run_of(inverse: np.ndarray[tuple[int], np.dtype[np.int64]], rows: list[Tensor]) -> Run:
        plan = plan_attention(np.asarray([len(row) for row in rows]), inverse)
        history_VD = torch.cat([rows[row] for row in plan.row_K]).requires_grad_()
        asking = asking_of(plan, num_samples)
        return partial(_learn, module, history_VD, candidate_BD.clone().requires_grad_(), grad_BD, asking)

    once = run_of(inverse_B, list(rows_U))
    copied = run_of(np.arange(num_samples), [rows_U[u] for u in inverse_B])
    # The gradients of histories have different shapes; everything else must agree.
    for ours, theirs in zip(once()[:-1], copied()[:-1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    return once, copied, float(lengths_U[inverse_B].sum() / lengths_U.sum())


def _learn(
    module: TargetAttention, history_VD: Tensor, candidate_BD: Tensor, grad_BD: Tensor, asking: object
) -> list[Tensor]:
    """The answers, then the gradients of every parameter, of the candidates and of the histories."""
    answer_BD: Tensor = module(history_VD, candidate_BD, asking, FbgemmOps())
    leaves = [*module.parameters(), candidate_BD, history_VD]
    return [answer_BD.detach(), *torch.autograd.grad(answer_BD, leaves, grad_BD)]
