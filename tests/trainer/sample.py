"""A small schema with every kind of feature, and random mini-batches of it. For tests only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from streams.events.roles import Roles
from streams.events.schema import DenseFeature, EventSchema, FeatureGroup, History, Label, SparseFeature
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.minibatch import Lineage, MiniBatch
from trainer.config import (
    AttentionConfig,
    DenseOptimizerName,
    ModelConfig,
    OptimizerConfig,
    Pooling,
    Readout,
    TableConfig,
)

ROLES = Roles(event_id=("id",), user="user", item="item", time="ts")


def schema_of(*, dense: int = 2, tasks: int = 2) -> EventSchema:
    """User, tags and history of the session; candidate and similar items of the sample. Items share a table."""
    return EventSchema(
        roles=ROLES,
        labels=tuple(Label(name=f"task{t}", field=f"y{t}") for t in range(tasks)),
        sparse=(
            SparseFeature(name="user", field="user", table="user"),
            SparseFeature(name="item", field="item", table="item"),
            SparseFeature(name="tags", field="tags", table="tag", list=True),
            SparseFeature(name="similar", field="similar", table="item", list=True),
        ),
        dense=tuple(DenseFeature(name=f"x{k}", field=f"x{k}") for k in range(dense)),
        histories=(History(name="history", table="item", last=6),),
        groups=(FeatureGroup(name="profile", features=("user", "tags")),),
    )


def model_of(
    *, rows: int = 50, heads: int = 2, layers: int = 2, readout: Readout = "mean", history: Pooling = "attention"
) -> ModelConfig:
    tables = {
        "user": TableConfig(rows=rows, init_scale=0.3),
        "item": TableConfig(rows=rows + 1, init_scale=0.3),
        "tag": TableConfig(rows=9, mapping="direct", init_scale=0.3),
    }
    attention = AttentionConfig(heads=heads, layers=layers, feedforward=8, max_length=4, readout=readout)
    pooling: dict[str, Pooling] = {"tags": "mean", "history": history}
    return ModelConfig(
        tables=tables,
        dim=8,
        dense_layers=(6,),
        over_layers=(12,),
        pooling=pooling,
        candidates={"history": "item"} if history == "target" else {},
        attention=attention,
    )


def optimizer_of(dense_optimizer: DenseOptimizerName = "adagrad") -> OptimizerConfig:
    return OptimizerConfig(learning_rate=0.05, dense_learning_rate=0.02, dense_optimizer=dense_optimizer)


def ikjt_of(group: str, rows: Sequence[Mapping[str, Sequence[int]]]) -> Ikjt:
    """Deduplicate one row per sample the slow way, numbered by first appearance."""
    seen: dict[tuple[tuple[str, tuple[int, ...]], ...], int] = {}
    inverse = [seen.setdefault(tuple((key, tuple(ids)) for key, ids in row.items()), len(seen)) for row in rows]
    unique = [dict(key) for key in seen]
    keys = list(rows[0])
    features = {key: Jagged.from_lists([row[key] for row in unique]) for key in keys}
    ikjt = Ikjt(group, features, np.asarray(inverse, np.int32))
    ikjt.validate()
    return ikjt


def batch_of(
    groups: Sequence[Ikjt], labels: Sequence[Sequence[float]], dense: Sequence[Sequence[float]] | None = None
) -> MiniBatch:
    num = len(labels)
    columns = np.zeros((num, 0), np.float32) if dense is None else np.asarray(dense, np.float32)
    return MiniBatch(
        partition=0,
        sequence=0,
        watermark_ms=0,
        fingerprint=0,
        lineage=Lineage(
            offset=np.arange(num, dtype=np.int64),
            event_id=np.arange(num, dtype=np.uint64),
            session_id=np.zeros(num, np.uint64),
            event_time_ms=np.arange(num, dtype=np.int64),
            appended_ms=np.full(num, -1, np.int64),
        ),
        labels=np.asarray(labels, np.float32),
        dense=columns,
        groups=tuple(groups),
    )


def random_batch(
    rng: np.random.Generator, num: int = 24, *, dense: int = 2, tasks: int = 2, users: int = 4
) -> MiniBatch:
    """Samples of few users with interleaved sessions, so that a row's samples are not adjacent; some rows are empty."""
    profiles = [
        {"user": [int(rng.integers(2**62))], "tags": rng.integers(-2, 12, rng.integers(0, 4)).tolist()}
        for _ in range(users)
    ]
    histories = [rng.integers(-(2**62), 2**62, rng.integers(0, 7)).tolist() for _ in range(2 * users)]
    histories[0] = []
    who = rng.integers(0, users, num)
    profile = ikjt_of("profile", [profiles[u] for u in who])
    item = ikjt_of("item", [{"item": [int(i)]} for i in rng.integers(0, 8, num)])
    similar = ikjt_of("similar", [{"similar": rng.integers(0, 8, rng.integers(0, 3)).tolist()} for _ in range(num)])
    history = ikjt_of("history", [{"history": histories[2 * u + int(rng.integers(2))]} for u in who])
    labels = rng.integers(0, 2, (num, tasks)).astype(np.float32)
    return batch_of([profile, item, similar, history], labels.tolist(), rng.normal(size=(num, dense)).tolist())
