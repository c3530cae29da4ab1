"""Target attention: a candidate asks its own history, padding is invisible, an empty history answers exactly 0."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from streams.errors import ConfigError
from streams.ikjt.jagged import offsets_of
from tests.trainer.sample import model_of, schema_of
from trainer.attention_plan import plan_attention
from trainer.jagged_ops import PlainOps
from trainer.target_attention import TargetAttention, asking_of

LENGTHS = [3, 0, 5, 1, 5]
INVERSE = [2, 0, 0, 1, 4, 2, 2, 4, 0]


def module_of() -> TargetAttention:
    """With every weight away from its initial zero."""
    torch.manual_seed(3)
    module = TargetAttention(8, 2, 6)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return module.double()


def answers(module: TargetAttention, rows: list[Tensor], candidate_BD: Tensor, inverse: list[int]) -> Tensor:
    """By way of a plan."""
    lengths = np.asarray([len(row) for row in rows])
    plan = plan_attention(lengths, np.asarray(inverse, np.int64))
    history_VD = torch.cat([rows[row] for row in plan.row_K] or [torch.zeros(0, 8, dtype=torch.float64)])
    assert plan.key_offsets.tolist() == offsets_of(lengths[plan.row_K]).tolist()
    answer: Tensor = module(history_VD, candidate_BD, asking_of(plan, len(inverse)), PlainOps())
    return answer


def test_each_candidate_asks_as_if_it_were_alone() -> None:
    module, rows = module_of(), [torch.randn(length, 8, dtype=torch.float64) for length in LENGTHS]
    candidate_BD = torch.randn(len(INVERSE), 8, dtype=torch.float64)
    together = answers(module, rows, candidate_BD, INVERSE)
    for sample, row in enumerate(INVERSE):
        alone = answers(module, [rows[row]], candidate_BD[sample : sample + 1], [0])
        torch.testing.assert_close(together[sample : sample + 1], alone)


def test_an_empty_history_answers_exactly_zero_and_sends_no_gradient() -> None:
    module, rows = module_of(), [torch.randn(length, 8, dtype=torch.float64) for length in LENGTHS]
    candidate_BD = torch.randn(len(INVERSE), 8, dtype=torch.float64, requires_grad=True)
    answer = answers(module, rows, candidate_BD, INVERSE)
    assert not answer[3].any()
    (grad_BD,) = torch.autograd.grad(answer.square().sum(), candidate_BD)
    assert not grad_BD[3].any()
    assert grad_BD[2].any()


def test_a_batch_without_any_history_is_legal() -> None:
    candidate_BD = torch.randn(3, 8, dtype=torch.float64)
    assert not answers(module_of(), [torch.zeros(0, 8, dtype=torch.float64)], candidate_BD, [0, 0, 0]).any()
    assert answers(module_of(), [torch.zeros(0, 8, dtype=torch.float64)], candidate_BD[:0], []).shape == (0, 8)


def test_it_starts_as_the_mean_of_the_history() -> None:
    module, row = TargetAttention(8, 2, 6).double(), torch.randn(5, 8, dtype=torch.float64)
    answer = answers(module, [row], torch.randn(2, 8, dtype=torch.float64), [0, 0])
    torch.testing.assert_close(answer, row.mean(0).expand(2, -1))


@pytest.mark.parametrize(
    ("pooling", "candidates", "why"),
    [
        ({"history": "target"}, {}, "needs model.candidates.history"),
        ({}, {"history": "item"}, "does nothing without"),
        ({"history": "target"}, {"history": "itme"}, "no feature 'itme'"),
        ({"history": "target", "similar": "attention"}, {"history": "similar"}, "is a sequence itself"),
        ({}, {"story": "item"}, "model.candidates.story: no such feature"),
    ],
)
def test_a_candidate_that_cannot_ask_is_refused_by_name(
    pooling: dict[str, object], candidates: dict[str, str], why: str
) -> None:
    from dataclasses import replace

    model = replace(model_of(), pooling=pooling, candidates=candidates)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ConfigError, match=why):
        model.check_against(schema_of())
