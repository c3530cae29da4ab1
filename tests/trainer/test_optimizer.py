"""The dense optimizer: torch's own is the oracle, and a veto leaves every bit alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from trainer.config import DenseOptimizerName, OptimizerConfig
from trainer.optimizer import build_dense_optimizer

YES, NO = torch.tensor(True), torch.tensor(False)


def net_of() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double()


def config_of(name: DenseOptimizerName) -> OptimizerConfig:
    return OptimizerConfig(dense_optimizer=name, dense_learning_rate=0.03, dense_eps=1e-6)


def grads_of(net: nn.Module, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in net.parameters()]


@pytest.mark.parametrize("name", ["adagrad", "adam"])
def test_steps_equal_those_of_torch(name: DenseOptimizerName) -> None:
    ours, theirs = net_of(), net_of()
    optimizer = build_dense_optimizer(ours, config_of(name))
    kind = torch.optim.Adagrad if name == "adagrad" else torch.optim.Adam
    oracle = kind(theirs.parameters(), lr=0.03, eps=1e-6)
    for seed in range(5):
        optimizer.step(grads_of(ours, seed), 1.0, YES)
        for parameter, grad in zip(theirs.parameters(), grads_of(theirs, seed), strict=True):
            parameter.grad = grad
        oracle.step()
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["adagrad", "adam"])
@pytest.mark.parametrize("learned_before", [0, 2])
def test_a_vetoed_step_changes_no_bit_of_parameters_or_state(name: DenseOptimizerName, learned_before: int) -> None:
    net = net_of()
    optimizer = build_dense_optimizer(net, config_of(name))
    for seed in range(learned_before):
        optimizer.step(grads_of(net, seed), 1.0, YES)
    parameters = [parameter.detach().clone() for parameter in net.parameters()]
    state = {key: tensor.clone() for key, tensor in optimizer.state().items()}
    optimizer.step([torch.full_like(grad, torch.nan) for grad in grads_of(net, 9)], 1.0, NO)
    assert all(torch.equal(p, before) for p, before in zip(net.parameters(), parameters, strict=True))
    assert all(torch.equal(tensor, state[key]) for key, tensor in optimizer.state().items())


def test_the_rate_factor_scales_a_step() -> None:
    full, half = net_of(), net_of()
    before = next(full.parameters()).detach().clone()
    build_dense_optimizer(full, config_of("adagrad")).step(grads_of(full, 1), 1.0, YES)
    build_dense_optimizer(half, config_of("adagrad")).step(grads_of(half, 1), 0.5, YES)
    moved = [next(net.parameters()) - before for net in (full, half)]
    torch.testing.assert_close(moved[0], 2 * moved[1])


def test_state_names_every_parameter() -> None:
    optimizer = build_dense_optimizer(net_of(), config_of("adam"))
    assert sorted(optimizer.state()) == sorted(
        ["learned", *(f"{m}.{p}" for m in ("first", "second") for p in ("0.bias", "0.weight", "1.bias", "1.weight"))]
    )
