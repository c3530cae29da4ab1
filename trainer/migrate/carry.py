"""The old state at its places in the new one.

What is carried is carried bit for bit: rows of tables and their second moments, every dense parameter and its moments,
metrics of kept tasks, `steps` and `learned`. Three tensors have a shape that depends on features and tasks, and are
carried element by element: the first layer of the over MLP (a column per pair of vectors that interact), its last layer
(a row per task) and the linear terms (a row per task, columns per feature). What is new in them is fresh, but where a
kept output meets a new feature: there it is 0, so that the logits of kept tasks do not change.
Never decides whether a migration is allowed: that is `plan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streams.errors import InvariantError
from trainer.config import TableConfig
from trainer.migrate.plan import Side

I64 = npt.NDArray[np.int64]
Places = tuple[I64, ...]
"""For one or two dimensions: the old index of every new one, -1 where it is new."""

_DENSE: Final = "model.dense."
_MOMENTS: Final = "model.dense_optimizer."


def migrated(old: Mapping[str, Tensor], fresh: Mapping[str, Tensor], was: Side, now: Side) -> dict[str, Tensor]:
    """The state of a fresh learner of the new configuration with everything that the old one had learned."""
    places = _places(was, now)
    state: dict[str, Tensor] = {}
    for name, begun in fresh.items():
        before, at = old.get(name), places.get(_parameter(name))
        if before is None:
            state[name] = begun.clone()
        elif at is not None:
            state[name] = _carried(before, begun, at)
        elif before.shape == begun.shape and before.dtype == begun.dtype:
            state[name] = before.clone()
        else:
            raise InvariantError(
                f"{name} was {before.dtype} {list(before.shape)} and is {begun.dtype} {list(begun.shape)}; "
                "keep the keys that decide it, such as train.window_samples"
            )
    return state


def _carried(old: Tensor, fresh: Tensor, places: Places) -> Tensor:
    state = fresh.clone()
    rows = torch.from_numpy(places[0])
    kept = rows >= 0
    if len(places) == 1:
        state[kept] = old[rows[kept]]
        return state
    columns = torch.from_numpy(places[1])
    there = columns >= 0
    carried = torch.zeros(int(kept.sum()), len(columns), dtype=old.dtype)
    carried[:, there] = old[rows[kept]][:, columns[there]]
    state[kept] = carried
    return state


def _places(was: Side, now: Side) -> dict[str, Places]:
    """By parameter name; parameters that keep their shape are left out."""
    found: dict[str, Places] = {}
    for name in was.model.tables.keys() & now.model.tables.keys():
        rows = _table_rows(was.model.tables[name], now.model.tables[name])
        found |= {f"model.table.{name}": (rows,), f"model.table_momentum.{name}": (rows,)}
    tasks = _indices(was.tasks, now.tasks)
    dim, hidden = now.model.dim, now.model.over_layers[0]
    first = np.concatenate([np.arange(dim), dim + _indices(_pairs(was), _pairs(now), missing=-1 - dim)])
    features = _indices(was.features, now.features)
    terms = np.where(features[:, None] < 0, -1, features[:, None] * dim + np.arange(dim)).reshape(-1)
    return found | {
        f"{_DENSE}over.model.0._mlp.0._linear.weight": (np.arange(hidden), first),
        f"{_DENSE}over.model.1.weight": (tasks,),
        f"{_DENSE}over.model.1.bias": (tasks,),
        f"{_DENSE}linear.weight": (tasks, terms),
    }


def _table_rows(was: TableConfig, now: TableConfig) -> I64:
    rows = np.arange(now.rows)
    if was.mapping != "direct":
        # An id falls on `hash % rows`: of a multiple of the rows, the remainder is where it fell before.
        return rows % was.rows
    places = np.where(rows < was.rows - 1, rows, -1)
    places[-1] = was.rows - 1
    return places


def _pairs(side: Side) -> list[frozenset[str]]:
    """Who interacts in each column after the dense vector, in the interaction's order. The dense vector is ``""``."""
    return [frozenset(pair) for pair in combinations(("", *side.features), 2)]


def _indices(was: Sequence[object], now: Sequence[object], missing: int = -1) -> I64:
    index = {each: place for place, each in enumerate(was)}
    return np.array([index.get(each, missing) for each in now], np.int64)


def _parameter(name: str) -> str:
    """The parameter whose shape a tensor has: moments have their parameter's."""
    if not name.startswith(_MOMENTS):
        return name
    return _DENSE + name.removeprefix(_MOMENTS).partition(".")[2]
