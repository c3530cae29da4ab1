"""The tables: sums of bags, one update per row and step, and nothing else touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainer.config import ModelConfig, OptimizerConfig, TableConfig
from trainer.tables import Tables, build_plain_tables, build_tables

MODEL = ModelConfig(tables={"a": TableConfig(rows=5), "b": TableConfig(rows=7)}, dim=8)
OPTIMIZER = OptimizerConfig(learning_rate=0.1, eps=1e-3)
CPU = torch.device("cpu")


@pytest.fixture(params=["fbgemm", "plain"])
def tables(request: pytest.FixtureRequest) -> Tables:
    if request.param == "fbgemm":
        return build_tables(MODEL, OPTIMIZER, 3, CPU)
    return build_plain_tables(MODEL, OPTIMIZER, 3, torch.float32)


def whole(read: Callable[[], dict[str, Tensor]]) -> Tensor:
    return torch.cat([rows.clone() for rows in read().values()])


def rowwise_adagrad(weight: Tensor, momentum: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The definition, on the summed gradient of each row."""
    momentum = momentum + grad.square().mean(1)
    return weight - 0.1 * grad / (momentum.sqrt() + 1e-3)[:, None], momentum


def test_a_bag_is_the_sum_of_its_rows_and_an_empty_one_is_zero(tables: Tables) -> None:
    rows = whole(tables.weights)
    output = tables.lookup(torch.tensor([1, 4, 11]), torch.tensor([0, 2, 2, 3]))
    torch.testing.assert_close(output.detach(), torch.stack([rows[1] + rows[4], torch.zeros(8), rows[11]]))


def test_an_update_is_rowwise_adagrad_on_the_summed_gradient(tables: Tables) -> None:
    ids, offsets = torch.tensor([1, 4, 1, 1, 11]), torch.tensor([0, 2, 3, 5])
    bag_V = torch.tensor([0, 0, 1, 2, 2])
    weight, momentum = whole(tables.weights), whole(tables.momenta)
    for _ in range(3):
        grad_ND = torch.randn(3, 8)
        grad_RD = torch.zeros(12, 8).index_add_(0, ids, grad_ND[bag_V])
        weight, momentum = rowwise_adagrad(weight, momentum, grad_RD)
        tables.update(tables.lookup(ids, offsets), grad_ND)
    torch.testing.assert_close(whole(tables.weights), weight)
    torch.testing.assert_close(whole(tables.momenta), momentum)


def test_two_lookups_of_a_shared_table_would_update_its_rows_differently(tables: Tables) -> None:
    """Why all features of a step go through one lookup: the first update changes the rate of the second."""
    grad_ND = torch.ones(2, 8)
    before = whole(tables.weights)
    tables.update(tables.lookup(torch.tensor([2, 2]), torch.tensor([0, 1, 2])), grad_ND)
    once = whole(tables.weights) - before
    split = build_plain_tables(MODEL, OPTIMIZER, 3, torch.float32)
    for place in range(2):
        split.update(split.lookup(torch.tensor([2]), torch.tensor([0, 1])), grad_ND[place : place + 1])
    twice = whole(split.weights) - before
    assert (once[2] - twice[2]).abs().max() > 0.05


def test_a_zero_gradient_changes_no_bit(tables: Tables) -> None:
    ids, offsets = torch.tensor([0, 3]), torch.tensor([0, 1, 2])
    tables.update(tables.lookup(ids, offsets), torch.randn(2, 8))
    weight, momentum = whole(tables.weights), whole(tables.momenta)
    tables.update(tables.lookup(torch.tensor([3, 9]), offsets), torch.zeros(2, 8))
    assert torch.equal(whole(tables.weights).view(torch.int32), weight.view(torch.int32))
    assert torch.equal(whole(tables.momenta).view(torch.int32), momentum.view(torch.int32))


def test_a_step_without_ids_is_legal(tables: Tables) -> None:
    before = whole(tables.weights)
    output = tables.lookup(torch.empty(0, dtype=torch.int64), torch.tensor([0, 0, 0]))
    assert not output.any()
    tables.update(output, torch.ones(2, 8))
    assert torch.equal(whole(tables.weights), before)


def test_the_rate_can_be_changed_between_steps(tables: Tables) -> None:
    before = whole(tables.weights)
    tables.set_learning_rate(0.0)
    tables.update(tables.lookup(torch.tensor([1]), torch.tensor([0, 1])), torch.ones(1, 8))
    assert torch.equal(whole(tables.weights), before)


def test_initial_rows_depend_on_seed_and_table_only() -> None:
    more = ModelConfig(tables={"c": TableConfig(rows=3), **MODEL.tables}, dim=8)
    first = build_tables(MODEL, OPTIMIZER, 3, CPU).weights()
    other = build_tables(more, OPTIMIZER, 3, CPU).weights()
    assert torch.equal(first["a"], other["a"])
    assert torch.equal(first["b"], other["b"])
    assert not torch.equal(first["a"], build_tables(MODEL, OPTIMIZER, 4, CPU).weights()["a"])


def test_initial_rows_stay_within_their_scale() -> None:
    rows = whole(build_tables(MODEL, OPTIMIZER, 3, CPU).weights)
    assert 0 < float(rows.abs().max()) <= 0.05


def test_a_row_outside_the_tables_is_refused_and_not_trained_as_row_0() -> None:
    tables = build_tables(MODEL, OPTIMIZER, 3, CPU)
    for outside in (12, -2):
        with pytest.raises(RuntimeError):
            tables.lookup(torch.tensor([outside]), torch.tensor([0, 1]))
