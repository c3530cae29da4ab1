"""The tables: sums of bags, one update per row and step, and nothing else touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from trainer.cache.cold_file import PLACES_ALIGNED, ColdFile
from trainer.cache.cold_rows import ColdRows, num_places
from trainer.cache.tables import CachedTables
from trainer.config import ModelConfig, OptimizerConfig, TableConfig
from trainer.row_uses import row_uses
from trainer.tables import Tables, build_fbgemm_tables, build_plain_tables, build_tables, init_rows

MODEL = ModelConfig(tables={"a": TableConfig(rows=5), "b": TableConfig(rows=7)}, dim=8)
OPTIMIZER = OptimizerConfig(learning_rate=0.1, eps=1e-3)
CPU = torch.device("cpu")
YES, NO = torch.tensor(True), torch.tensor(False)


@pytest.fixture(params=["host", "fbgemm", "plain", "cached"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    match request.param:
        case "cached":
            # Five slots for twelve rows: most steps push out what the one before has learned.
            cached = CachedTables(MODEL.tables, cold_rows(tmp_path), 5, OPTIMIZER)
            init_rows(cached, MODEL.tables, 3)
            return cached
        case "host":
            return build_tables(MODEL, OPTIMIZER, 3, CPU)
        case "fbgemm":
            built = build_fbgemm_tables(MODEL, OPTIMIZER, CPU)
            init_rows(built, MODEL.tables, 3)
            return built
        case _:
            return build_plain_tables(MODEL, OPTIMIZER, 3, torch.float32)


def cold_rows(directory: Path, *, direct: bool = True) -> ColdRows:
    return ColdRows(ColdFile(directory, num_places(12, PLACES_ALIGNED), MODEL.dim, direct=direct), 12, PLACES_ALIGNED)


def learn(tables: Tables, ids: list[int], offsets: list[int], grad_ND: Tensor, learns: Tensor = YES) -> Tensor:
    """One lookup and its update; returns what was looked up."""
    ids_V, offsets_N1 = torch.tensor(ids, dtype=torch.int64), torch.tensor(offsets)
    uses = row_uses(ids_V.numpy(), offsets_N1.numpy())
    output_ND = tables.lookup(ids_V, offsets_N1, uses)
    tables.update(output_ND, grad_ND, uses, learns)
    return output_ND.detach()


def whole(read: Callable[[], dict[str, Tensor]]) -> Tensor:
    return torch.cat([rows.clone() for rows in read().values()])


def rowwise_adagrad(weight: Tensor, momentum: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The definition, on the summed gradient of each row."""
    momentum = momentum + grad.square().mean(1)
    return weight - 0.1 * grad / (momentum.sqrt() + 1e-3)[:, None], momentum


def test_a_bag_is_the_sum_of_its_rows_and_an_empty_one_is_zero(tables: Tables) -> None:
    rows = whole(tables.weights)
    output = learn(tables, [1, 4, 11], [0, 2, 2, 3], torch.zeros(3, 8))
    torch.testing.assert_close(output, torch.stack([rows[1] + rows[4], torch.zeros(8), rows[11]]))


def test_an_update_is_rowwise_adagrad_on_the_summed_gradient(tables: Tables) -> None:
    ids, offsets = [1, 4, 1, 1, 11], [0, 2, 3, 5]
    bag_V = torch.tensor([0, 0, 1, 2, 2])
    weight, momentum = whole(tables.weights), whole(tables.momenta)
    for _ in range(3):
        grad_ND = torch.randn(3, 8)
        grad_RD = torch.zeros(12, 8).index_add_(0, torch.tensor(ids), grad_ND[bag_V])
        weight, momentum = rowwise_adagrad(weight, momentum, grad_RD)
        learn(tables, ids, offsets, grad_ND)
    torch.testing.assert_close(whole(tables.weights), weight)
    torch.testing.assert_close(whole(tables.momenta), momentum)


def test_two_lookups_of_a_shared_table_would_update_its_rows_differently(tables: Tables) -> None:
    """Why all features of a step go through one lookup: the first update changes the rate of the second."""
    grad_ND = torch.ones(2, 8)
    before = whole(tables.weights)
    learn(tables, [2, 2], [0, 1, 2], grad_ND)
    once = whole(tables.weights) - before
    split = build_plain_tables(MODEL, OPTIMIZER, 3, torch.float32)
    for place in range(2):
        learn(split, [2], [0, 1], grad_ND[place : place + 1])
    twice = whole(split.weights) - before
    assert (once[2] - twice[2]).abs().max() > 0.05


def test_a_zero_gradient_changes_no_bit(tables: Tables) -> None:
    learn(tables, [0, 3], [0, 1, 2], torch.randn(2, 8))
    weight, momentum = whole(tables.weights), whole(tables.momenta)
    learn(tables, [3, 9], [0, 1, 2], torch.zeros(2, 8))
    assert torch.equal(whole(tables.weights).view(torch.int32), weight.view(torch.int32))
    assert torch.equal(whole(tables.momenta).view(torch.int32), momentum.view(torch.int32))


def test_what_must_not_be_learned_changes_no_bit(tables: Tables) -> None:
    weight, momentum = whole(tables.weights), whole(tables.momenta)
    learn(tables, [0, 3], [0, 1, 2], torch.tensor([[torch.nan] * 8, [torch.inf] * 8]), learns=NO)
    assert torch.equal(whole(tables.weights).view(torch.int32), weight.view(torch.int32))
    assert torch.equal(whole(tables.momenta).view(torch.int32), momentum.view(torch.int32))


def test_a_step_without_ids_is_legal(tables: Tables) -> None:
    before = whole(tables.weights)
    assert not learn(tables, [], [0, 0, 0], torch.ones(2, 8)).any()
    assert torch.equal(whole(tables.weights), before)


def test_the_rate_can_be_changed_between_steps(tables: Tables) -> None:
    before = whole(tables.weights)
    tables.set_learning_rate(0.0)
    learn(tables, [1], [0, 1], torch.ones(1, 8))
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
            tables.lookup(torch.tensor([outside]), torch.tensor([0, 1]), row_uses(np.zeros(1, np.int64), np.arange(2)))


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("told", ["nothing", "the next step", "another step"])
def test_a_cache_gives_the_same_bits_as_memory(tmp_path: Path, told: str, *, direct: bool) -> None:
    """Random steps over few slots, read ahead or not, saved and loaded on the way."""
    memory = build_tables(MODEL, OPTIMIZER, 3, CPU)
    cached = CachedTables(MODEL.tables, cold_rows(tmp_path, direct=direct), 6, OPTIMIZER)
    init_rows(cached, MODEL.tables, 3)
    generator = torch.Generator().manual_seed(5)
    steps = [(torch.randperm(12, generator=generator)[:6].repeat(2)[: 4 + step % 8]).tolist() for step in range(62)]
    for step, ids in enumerate(steps[:60]):
        if told != "nothing":
            after = steps[step + 1 if told == "the next step" else step + 2]
            cached.expect(row_uses(np.asarray(after), np.array([0, len(after)])))
        grad_ND = torch.randn(2, 8, generator=generator)
        ours, theirs = (learn(each, ids, [0, 3, len(ids)], grad_ND) for each in (cached, memory))
        assert torch.equal(ours, theirs)
        if step == 30:
            kept = {name: rows.clone() for name, rows in cached.weights().items()}
            for name, rows in cached.weights().items():
                rows.copy_(kept[name])
            cached.replaced()
    assert torch.equal(whole(cached.weights), whole(memory.weights))
    assert torch.equal(whole(cached.momenta), whole(memory.momenta))
    assert 0 < cached.counts.evicted < cached.counts.missing < cached.counts.distinct < cached.counts.asked
    assert (cached.counts.ahead > 0.9 * cached.counts.missing) == (told == "the next step")
    assert cached.moved()["recd_cache_missing_rows_total"] == cached.counts.missing
    assert set(cached.moved().values()) == {0}, "each is told once"
