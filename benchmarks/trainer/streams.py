"""Mini-batches of a model whose sessions have exactly f samples each, and the model that trains on them.

Owns the laws. What a user feature holds does not change within a session, so a batch of B samples has B / f distinct
rows of it: the dedup factor is f and nothing else. Lists are of uniform length 1…2×mean, ids bounded Zipf 1.05 over
1,000,000 under one seeded permutation; dense values are normal, 5 % of the labels are 1.

Shapes: B samples, U sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.rm import LABEL_RATE, NUM_IDS, zipf
from streams.events.roles import Roles
from streams.events.schema import DenseFeature, EventSchema, FeatureGroup, Label, SparseFeature
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.windows import PartialIkjt
from streams.minibatch import Lineage, MiniBatch
from trainer.config import AttentionConfig, ModelConfig, OptimizerConfig, TableConfig

I64 = npt.NDArray[np.int64]

BATCH: Final = 2048
DENSE: Final = 13
TABLE_ROWS: Final = 100_000
DRIFT: Final = 0.01
DRIFT_STEPS: Final = 1_000
OPTIMIZER: Final = OptimizerConfig(learning_rate=0.02)
_EPOCH_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """What tells one model from another."""

    name: str
    users: int
    user_mean: int
    items: int
    item_mean: float
    history_mean: int = 0
    """Ids of the one history that is attended to; 0: there is none."""
    dim: int = 64

    @property
    def users_together(self) -> list[str]:
        """Features of the session."""
        return [f"user{f}" for f in range(self.users)]

    @property
    def of_items(self) -> list[str]:
        """Features of the sample."""
        return [f"item{f}" for f in range(self.items)]

    @property
    def histories(self) -> list[str]:
        """Features that are attended to."""
        return ["history"] if self.history_mean else []


USERS: Final = Laws(name="users", users=8, user_mean=40, items=0, item_mean=0, history_mean=50)
"""rm1-small without what belongs to items."""
SMALL: Final = Laws(name="rm1", users=8, user_mean=40, items=8, item_mean=1.5, history_mean=50)
POOLED: Final = Laws(name="pooled", users=8, user_mean=40, items=8, item_mean=1.5)
RM2: Final = Laws(name="rm2", users=60, user_mean=10, items=20, item_mean=2)
RM3: Final = Laws(name="rm3", users=20, user_mean=40, items=10, item_mean=2)


def schema_of(laws: Laws, shared: str = "") -> EventSchema:
    """A group of user features, one of histories and one of item features; a table each, or the `shared` one."""
    names = [*laws.users_together, *laws.histories, *laws.of_items]
    groups = {"user": laws.users_together, "history": laws.histories, "item": laws.of_items}
    return EventSchema(
        roles=Roles(event_id=("id",), user="user", item="item", time="time"),
        labels=(Label(name="click", field="click"),),
        sparse=tuple(SparseFeature(name=name, field=name, table=shared or name, list=True) for name in names),
        dense=tuple(DenseFeature(name=f"dense{k}", field=f"dense{k}") for k in range(DENSE)),
        groups=tuple(FeatureGroup(name=name, features=tuple(keys)) for name, keys in groups.items() if keys),
    )


def model_of(laws: Laws, rows: int = TABLE_ROWS) -> ModelConfig:
    """A DLRM with one embedding table a feature; sums, and attention over the histories."""
    schema = schema_of(laws)
    longest = 2 * laws.history_mean
    return ModelConfig(
        tables={name: TableConfig(rows=rows) for name in schema.feature_names},
        dim=laws.dim,
        dense_layers=(512, 256),
        over_layers=(512, 256),
        pooling={name: "attention" if name in laws.histories else "sum" for name in schema.feature_names},
        attention=AttentionConfig(heads=4, layers=1, feedforward=4 * laws.dim, max_length=max(longest, 1)),
    )


def mini_batch(laws: Laws, sizes: I64, seed: int, ids: I64 | None = None) -> MiniBatch:
    """One batch whose sessions have `sizes` samples; the same for the same seed. `ids`: of each rank, by popularity."""
    rng = np.random.default_rng(seed)
    num_sessions, num_samples = len(sizes), int(sizes.sum())
    of_session = np.repeat(np.arange(num_sessions, dtype=np.int32), sizes)
    of_sample = np.arange(num_samples, dtype=np.int32)
    lists = {
        "user": (laws.users_together, laws.user_mean, of_session),
        "history": (laws.histories, laws.history_mean, of_session),
        "item": (laws.of_items, laws.item_mean, of_sample),
    }
    groups = [
        Ikjt(name, {key: _rows(rng, int(inverse[-1]) + 1, mean, ids) for key in keys}, inverse)
        for name, (keys, mean, inverse) in lists.items()
        if keys
    ]
    event_time_ms = _EPOCH_MS + np.arange(num_samples, dtype=np.int64)
    return MiniBatch(
        partition=0,
        sequence=seed,
        watermark_ms=int(event_time_ms[-1]),
        fingerprint=0,
        lineage=Lineage(
            offset=np.arange(num_samples, dtype=np.int64),
            event_id=np.arange(num_samples, dtype=np.uint64),
            session_id=of_session.astype(np.uint64),
            event_time_ms=event_time_ms,
            appended_ms=event_time_ms,
        ),
        labels=(rng.random((num_samples, 1)) < LABEL_RATE).astype(np.float32),
        dense=rng.normal(size=(num_samples, DENSE)).astype(np.float32),
        groups=tuple(groups),
    )


def sliding(laws: Laws, sizes: I64, seed: int) -> MiniBatch:
    """The same, but the lists of a session lose their oldest id and gain a new one at every sample: windows."""
    rng = np.random.default_rng(seed)
    batch = mini_batch(laws, sizes, seed)
    length = rng.integers(1, 2 * laws.user_mean, len(sizes), endpoint=True)
    offsets = offsets_of(length + sizes - 1)
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    start = (np.repeat(offsets[:-1], sizes) + within).astype(np.int32)
    buffers = {key: Jagged(_draw(rng, int(offsets[-1]), None), offsets) for key in laws.users_together}
    lengths = np.repeat(length, sizes).astype(np.int32)
    windows = PartialIkjt("user", buffers, start, lengths, np.arange(len(start), dtype=np.int32))
    return replace(batch, groups=(windows, *batch.groups[1:]))


def even(factor: int, num_samples: int = BATCH) -> I64:
    """[U], sessions of `factor` samples each."""
    return np.full(num_samples // factor, factor, np.int64)


def ragged(mean: int, longest: int, num_samples: int, seed: int) -> I64:
    """[U], sessions of 1 to `longest` samples, `mean` on average, that hold `num_samples` together."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.geometric(1 / mean, num_samples), longest)
    ends = np.cumsum(sizes)
    last = int(np.searchsorted(ends, num_samples))
    sizes = sizes[: last + 1]
    sizes[-1] -= ends[last] - num_samples
    return np.asarray(sizes, np.int64)


def drifting(rng: np.random.Generator, hot: int, steps: int, every: int = DRIFT_STEPS) -> Iterator[I64]:
    """The ids by popularity at every step: 1 % of the `hot` most popular give their place to any other in `every`.

    The array is the same one each time: use it before the next is asked for.
    """
    ids, swapped, due = _ids().copy(), 0, 0.0
    for _ in range(steps):
        yield ids
        due += DRIFT * hot / every
        for _ in range(int(due) - swapped):
            one, other = rng.integers(hot), rng.integers(len(ids))
            ids[[one, other]] = ids[[other, one]]
        swapped = int(due)


def _rows(rng: np.random.Generator, num_rows: int, mean: float, ids: I64 | None) -> Jagged:
    lengths = rng.integers(1, int(2 * mean), num_rows, endpoint=True)
    return Jagged(_draw(rng, int(lengths.sum()), ids), offsets_of(lengths))


def _draw(rng: np.random.Generator, num: int, ids: I64 | None) -> I64:
    ranks = np.searchsorted(_cdf(), rng.random(num), side="right")
    return (_ids() if ids is None else ids)[np.minimum(ranks, NUM_IDS - 1)]


@cache
def _cdf() -> npt.NDArray[np.float64]:
    return np.asarray(np.cumsum(zipf()))


@cache
def _ids() -> I64:
    return np.random.default_rng(0).permutation(NUM_IDS)
