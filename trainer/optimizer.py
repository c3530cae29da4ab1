"""The dense optimizer: Adagrad or Adam over one flat parameter, with a veto that stays on the device.

torch's optimizers decide on the host whether to step, or advance their step count with a zero gradient. Here
a flag tensor decides, without a host sync: where it is false, parameters and state keep every bit.

Shape suffixes: P elements of all dense parameters, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainer.config import OptimizerConfig

_BETA_1, _BETA_2 = 0.9, 0.999


class DenseOptimizer:
    """Owns the storage of the parameters that it updates: each becomes a view of `flat_P`."""

    def __init__(self, named: Sequence[tuple[str, nn.Parameter]], flat_P: Tensor, config: OptimizerConfig) -> None:
        self._named = named
        self._flat_P = flat_P
        self._config = config
        names = ("sum",) if config.dense_optimizer == "adagrad" else ("first", "second")
        self._moments_P = {name: torch.zeros_like(flat_P) for name in names}
        self._learned = torch.zeros((), dtype=torch.float64, device=flat_P.device)

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [parameter for _, parameter in self._named]

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor], rate_factor: float, apply: Tensor) -> None:
        """One update; nothing changes where `apply`, a boolean scalar, is false."""
        grad_P = torch.cat([grad.reshape(-1) for grad in grads])
        grad_P = torch.where(apply, grad_P, 0)
        rate = self._config.dense_learning_rate * rate_factor
        if self._config.dense_optimizer == "adagrad":
            self._adagrad(grad_P, rate)
        else:
            self._adam(grad_P, rate, apply)

    def _adagrad(self, grad_P: Tensor, rate: float) -> None:
        """A gradient of zero adds zero to the sum and subtracts zero from the parameter: no second `where`."""
        sum_P = self._moments_P["sum"].addcmul_(grad_P, grad_P)
        self._flat_P.addcdiv_(grad_P, sum_P.sqrt().add_(self._config.dense_eps), value=-rate)

    def _adam(self, grad_P: Tensor, rate: float, apply: Tensor) -> None:
        first_P, second_P = self._moments_P["first"], self._moments_P["second"]
        self._learned += apply
        # Before the first learned step both corrections would be 0.
        steps = self._learned.clamp(min=1.0)
        first_P.copy_(torch.where(apply, torch.lerp(first_P, grad_P, 1 - _BETA_1), first_P))
        second_P.copy_(torch.where(apply, second_P + (1 - _BETA_2) * (grad_P * grad_P - second_P), second_P))
        root_P = (second_P / (1 - _BETA_2**steps)).sqrt_().add_(self._config.dense_eps)
        change_P = first_P / (1 - _BETA_1**steps) / root_P
        self._flat_P.sub_(torch.where(apply, rate * change_P, 0))

    def state(self) -> dict[str, Tensor]:
        """Flat names to the storage itself: a moment per parameter, and the count of learned steps."""
        state = {}
        for moment, flat_P in self._moments_P.items():
            for (name, parameter), part in zip(self._named, self._split(flat_P), strict=True):
                state[f"{moment}.{name}"] = part.view(parameter.shape)
        return state | {"learned": self._learned}

    def _split(self, flat_P: Tensor) -> tuple[Tensor, ...]:
        sizes = [parameter.numel() for parameter in self.parameters]
        return torch.split(flat_P, sizes)


def build_dense_optimizer(net: nn.Module, config: OptimizerConfig) -> DenseOptimizer:
    """Moves the parameters of a net into one flat tensor; call it after the last `.to()`."""
    named = list(net.named_parameters())
    flat_P = torch.cat([parameter.detach().reshape(-1) for _, parameter in named])
    start = 0
    for _, parameter in named:
        parameter.data = flat_P[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return DenseOptimizer(named, flat_P, config)
