"""The model's state is flat and complete, and any other state is refused in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from streams.errors import ConfigError, InvariantError
from tests.trainer.sample import model_of, optimizer_of, random_batch, schema_of
from trainer.config import DenseOptimizerName, TableConfig
from trainer.model import RecModel, build_model
from trainer.step import Step
from trainer.tensors import to_tensors

SCHEMA, MODEL = schema_of(), model_of()


def trained(name: DenseOptimizerName, seed: int, steps: int) -> RecModel:
    model = build_model(SCHEMA, MODEL, optimizer_of(name), seed)
    step = Step(model, optimizer_of(name))
    for place in range(steps):
        step.run(to_tensors([random_batch(np.random.default_rng(place))], SCHEMA, MODEL))
    return model


@pytest.mark.parametrize("name", ["adagrad", "adam"])
def test_a_restored_model_continues_bit_for_bit(name: DenseOptimizerName) -> None:
    model = trained(name, seed=1, steps=5)
    other = trained(name, seed=2, steps=1)
    other.load_state({key: tensor.clone() for key, tensor in model.state().items()})
    for place in range(3):
        batch = to_tensors([random_batch(np.random.default_rng(100 + place))], SCHEMA, MODEL)
        one, two = Step(model, optimizer_of(name)).run(batch), Step(other, optimizer_of(name)).run(batch)
        assert torch.equal(one.logits_BT, two.logits_BT)
    assert all(torch.equal(tensor, other.state()[key]) for key, tensor in model.state().items())


def test_the_state_holds_every_weight_and_all_optimizer_state() -> None:
    state = trained("adagrad", seed=1, steps=2).state()
    dense = {key.removeprefix("dense.") for key in state if key.startswith("dense.")}
    assert {key.removeprefix("dense_optimizer.sum.") for key in state if "_optimizer.sum." in key} == dense
    assert {key for key in state if key.startswith("table")} == {
        f"{kind}.{table}" for kind in ("table", "table_momentum") for table in ("user", "item", "tag")
    }
    assert int(state["steps"]) == 2
    assert all(bool(state[f"table_momentum.{table}"].any()) for table in ("user", "item", "tag"))


def test_a_wrong_state_is_refused_with_every_difference_and_changes_nothing() -> None:
    model = trained("adagrad", seed=1, steps=1)
    before = {key: tensor.clone() for key, tensor in model.state().items()}
    wrong = {key: tensor + 1 for key, tensor in before.items()}
    del wrong["table.user"]
    wrong["table.shop"] = torch.zeros(3, 8)
    wrong["table_momentum.item"] = torch.zeros(3)
    with pytest.raises(InvariantError) as refusal:
        model.load_state(wrong)
    for words in ("table.user is missing", "table.shop is unexpected", "table_momentum.item is torch.float32 [3]"):
        assert words in str(refusal.value)
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state().items())


def test_a_state_of_another_dense_optimizer_is_refused() -> None:
    with pytest.raises(InvariantError, match="dense_optimizer"):
        trained("adam", 1, 1).load_state(trained("adagrad", 1, 1).state())


def test_initial_weights_are_decided_by_the_seed_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one = build_model(SCHEMA, MODEL, optimizer_of(), seed=3).state()
    assert torch.equal(torch.rand(1), expected)
    two, other = (build_model(SCHEMA, MODEL, optimizer_of(), seed).state() for seed in (3, 4))
    assert all(torch.equal(tensor, two[key]) for key, tensor in one.items())
    assert not torch.equal(one["table.item"], other["table.item"])


def test_predicting_changes_nothing() -> None:
    model = trained("adagrad", seed=1, steps=1)
    before = {key: tensor.clone() for key, tensor in model.state().items()}
    model.predict(to_tensors([random_batch(np.random.default_rng(3))], SCHEMA, MODEL))
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state().items())


def test_a_table_that_is_missing_or_unused_is_refused_by_name() -> None:
    fewer = {name: table for name, table in MODEL.tables.items() if name != "tag"}
    with pytest.raises(ConfigError, match=r"model\.tables\.tag is missing"):
        build_model(SCHEMA, replace(MODEL, tables=fewer), optimizer_of(), 0)
    with pytest.raises(ConfigError, match=r"model\.tables\.shop is used by no feature"):
        build_model(SCHEMA, replace(MODEL, tables={**MODEL.tables, "shop": TableConfig(rows=4)}), optimizer_of(), 0)


@pytest.mark.parametrize(("dense", "tasks"), [(0, 1), (0, 3), (1, 1)])
def test_a_model_without_dense_columns_or_with_one_task_learns(dense: int, tasks: int) -> None:
    schema = schema_of(dense=dense, tasks=tasks)
    model = build_model(schema, MODEL, optimizer_of(), 0)
    batch = to_tensors([random_batch(np.random.default_rng(0), dense=dense, tasks=tasks)], schema, MODEL)
    losses = [float(Step(model, optimizer_of()).run(batch).loss) for _ in range(30)]
    assert losses[-1] < losses[0]
