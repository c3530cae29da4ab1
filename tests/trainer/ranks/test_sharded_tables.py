"""Tables over two ranks: what tables in one process give for both ranks' bags together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.trainer.ranks import ranks_kit
from trainer.config import ModelConfig, OptimizerConfig, TableConfig
from trainer.ranks.channel import Channel
from trainer.ranks.group import joined
from trainer.ranks.place import Place
from trainer.ranks.sharded_tables import ShardedTables, build_sharded_tables
from trainer.row_uses import row_uses
from trainer.tables import build_tables, init_rows

MODEL = ModelConfig(tables={"a": TableConfig(rows=5), "b": TableConfig(rows=8)}, dim=8)
"""Thirteen rows: two ranks have seven places each."""
OPTIMIZER = OptimizerConfig(learning_rate=0.1, eps=1e-3)
STEPS = 12


def bags(step: int, rank: int) -> tuple[list[int], list[int]]:
    """Ids and offsets of a rank in a step. Rank 1 has none at first, rank 0 none in every third step; some share."""
    draw = np.random.default_rng([step, rank])
    if (rank == 1 and step < 3) or (rank == 0 and step % 3 == 2):
        return [], [0]
    lengths = draw.integers(0, 4, draw.integers(1, 6))
    ids = draw.integers(0, 13, lengths.sum())
    return ids.tolist(), [0, *np.cumsum(lengths).tolist()]


def gradient(step: int, rank: int) -> Tensor:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(len(bags(step, rank)[1]) - 1, 8, generator=generator)


def learns(step: int) -> bool:
    return step != 7


def numbers(tables: dict[str, Tensor]) -> dict[str, Any]:
    return {name: rows.numpy().copy() for name, rows in tables.items()}


def train(place: Place) -> dict[str, Any]:
    """A rank's side of all steps: what it looked up, and on rank 0 the tables before and after."""
    with joined(place, "cpu", 60_000):
        channel = Channel(place, 60_000)
        asked: list[str] = []
        tables = build_sharded_tables(MODEL, OPTIMIZER, place, torch.device("cpu"), channel, asked.append)
        told: dict[str, Any] = {}
        if place.leads:
            init_rows(tables, MODEL.tables, 3)
            assert asked == ["weights", "momenta", "replaced"]
            told["fresh"] = numbers(tables.weights())
        else:
            tables.give("weights")
            tables.give("momenta")
            tables.take()
        told["looked_up"] = [step_of(tables, step, place.rank) for step in range(STEPS)]
        if place.leads:
            told |= {"weights": numbers(tables.weights()), "momenta": numbers(tables.momenta())}
        else:
            tables.give("weights")
            tables.give("momenta")
    return told


def step_of(tables: ShardedTables, step: int, rank: int) -> Any:  # noqa: ANN401  (an array of numpy)
    tables.num_bags = max(len(bags(step, each)[1]) - 1 for each in range(2))
    tables.set_learning_rate(0.1 if step < 6 else 0.05)
    ids, offsets = bags(step, rank)
    output_ND = tables.lookup(torch.tensor(ids, dtype=torch.int64), torch.tensor(offsets), None)
    grad_ND = gradient(step, rank) if learns(step) else torch.full_like(gradient(step, rank), torch.nan)
    tables.update(output_ND, grad_ND, None, torch.tensor(learns(step)))
    return output_ND.detach().numpy().copy()


def test_two_ranks_with_uneven_bags_learn_what_one_process_learns() -> None:
    leader, follower = ranks_kit.run(2, train)
    alone = build_tables(MODEL, OPTIMIZER, 3, torch.device("cpu"))
    for name, rows in alone.weights().items():
        assert np.array_equal(leader["fresh"][name], rows.numpy()), "the same initial rows to the bit"
    for step in range(STEPS):
        (ids0, offsets0), (ids1, offsets1) = bags(step, 0), bags(step, 1)
        ids_V = np.asarray(ids0 + ids1, np.int64)
        offsets_N1 = np.asarray(offsets0 + [offset + len(ids0) for offset in offsets1[1:]])
        uses = row_uses(ids_V, offsets_N1)
        alone.set_learning_rate(0.1 if step < 6 else 0.05)
        output_ND = alone.lookup(torch.from_numpy(ids_V), torch.from_numpy(offsets_N1), uses)
        ranks_ND = np.concatenate([leader["looked_up"][step], follower["looked_up"][step]])
        np.testing.assert_allclose(ranks_ND, output_ND.numpy(), rtol=1e-5, atol=1e-6)
        alone.update(output_ND, torch.cat([gradient(step, 0), gradient(step, 1)]), uses, torch.tensor(learns(step)))
    for kind, tables in (("weights", alone.weights()), ("momenta", alone.momenta())):
        for name, rows in tables.items():
            np.testing.assert_allclose(leader[kind][name], rows.numpy(), rtol=1e-4, atol=1e-6)
