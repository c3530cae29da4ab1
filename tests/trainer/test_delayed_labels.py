"""Conversions that come late, from log to model: corrected it is calibrated, uncorrected it is low."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
import torch

from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import EmitBatch
from streams.clock_mark import ClockMark, MarkKind
from streams.events.event import EventBatch
from streams.events.roles import Roles
from streams.events.schema import EventKind, EventSchema, Label, SparseFeature
from streams.minibatch import MiniBatch
from streams.stage import Stage
from trainer.config import ModelConfig, OptimizerConfig, TableConfig
from trainer.model import build_model
from trainer.step import Step
from trainer.tensors import to_tensors

CONVERSIONS_S = np.asarray([0.05, 0.1, 0.2, 0.4])
"""The law: chance of a conversion within the window, by item."""
IMPRESSIONS, USERS, EVERY_MS, GAP_MS, WINDOW_MS = 40_000, 50, 10, 500, 4_000
SCHEMA = EventSchema(
    roles=Roles(event_id=("id",), user="user", item="item", time="time"),
    labels=(Label(name="bought", field="bought"),),
    sparse=(SparseFeature(name="item", field="item", table="items"),),
)
MODEL = ModelConfig(
    tables={"items": TableConfig(rows=64, mapping="direct")}, dim=4, dense_layers=(4,), over_layers=(8,)
)
OPTIMIZER = OptimizerConfig(learning_rate=0.1, dense_learning_rate=0.003)


def log() -> EventBatch:
    """Impressions, and conversions that happen at any time of the window, in order of time."""
    rng = np.random.default_rng(4)
    at = EVERY_MS * np.arange(IMPRESSIONS)
    user, item = rng.integers(0, USERS, IMPRESSIONS), rng.integers(0, len(CONVERSIONS_S), IMPRESSIONS)
    buys = np.flatnonzero(rng.random(IMPRESSIONS) < CONVERSIONS_S[item])
    time = np.concatenate([at, at[buys] + rng.integers(1, WINDOW_MS, len(buys))])
    order = np.argsort(time, kind="stable")
    outcome = order >= IMPRESSIONS
    shown = np.concatenate([np.arange(IMPRESSIONS), buys])[order]
    ids = (1 + np.arange(len(time), dtype=np.uint64))[order]
    return EventBatch(
        offset=np.arange(len(time)),
        event_time_ms=time[order],
        event_id=ids,
        content_hash=ids,
        user=user[shown],
        item=item[shown],
        kind=np.where(outcome, EventKind.OUTCOME, EventKind.IMPRESSION).astype(np.uint8),
        impression=(shown + 1).astype(np.uint64),
        appended_ms=np.full(len(time), -1),
        labels=np.where(outcome, np.float32(1), np.float32(np.nan))[:, None],
        dense=np.empty((len(time), 0), np.float32),
        ids=item[shown][:, None],
        lists=(),
    )


@cache
def stream(policy: str, negative_rate: float = 1.0) -> list[MiniBatch]:
    joins = JoinConfig(window_ms=WINDOW_MS, policy=policy, negative_rate=negative_rate)  # type: ignore[arg-type]
    sessions = SessionConfig(gap_ms=GAP_MS, lateness_ms=0, max_samples=4, duplicate_horizon_ms=1)
    core = PartitionCore(SCHEMA, sessions, BatchConfig(samples=256), 0, joins)
    events = log()
    effects = core.feed(events, rejected=0, next_offset=len(events))
    effects += core.apply(ClockMark(partition=0, after_offset=len(events), kind=MarkKind.END))
    return [effect.batch for effect in effects if isinstance(effect, EmitBatch)]


def as_known_when_it_left(batch: MiniBatch) -> MiniBatch:
    """What a trainer without corrections would make of it: plain loss, and no second copies."""
    again = (batch.stages == Stage.CORRECTION)[:, None]
    return replace(batch, stage=None, labels=np.where(again, np.float32(np.nan), batch.labels))


def predictions(batches: list[MiniBatch]) -> npt.NDArray[np.float64]:
    """By item, on average over the models of the last quarter of the steps: one model jumps with its last samples."""
    model = build_model(SCHEMA, MODEL, OPTIMIZER, seed=0)
    step = Step(model, OPTIMIZER)
    one_each = next(batch for batch in stream("wait") if len(np.unique(items_of(batch))) == len(CONVERSIONS_S))
    items, places = np.unique(items_of(one_each), return_index=True)
    tensors = to_tensors([one_each], SCHEMA, MODEL)
    seen = []
    for number, batch in enumerate(batches):
        step.run(to_tensors([batch], SCHEMA, MODEL))
        if number >= 3 * len(batches) // 4:
            seen.append(torch.sigmoid(model.predict(tensors)).double().numpy()[places, 0])
    assert items.tolist() == [0, 1, 2, 3]
    return np.asarray(np.mean(seen, axis=0), np.float64)


def items_of(batch: MiniBatch) -> npt.NDArray[np.int64]:
    (group,) = batch.groups
    return group.expand()["item"].values


def test_some_conversions_are_known_when_their_sample_leaves_and_most_come_later() -> None:
    batches = stream("correct")
    stage = np.concatenate([batch.stages for batch in batches])
    label = np.concatenate([batch.labels[:, 0] for batch in batches])
    assert np.count_nonzero(stage != Stage.CORRECTION) == IMPRESSIONS
    known, later = int(label[stage == Stage.PROVISIONAL].sum()), int(label[stage == Stage.CORRECTION].sum())
    assert 0.05 < known / (known + later) < 0.6


def test_corrections_end_near_the_law_and_labels_as_they_were_known_end_low() -> None:
    corrected = predictions(stream("correct"))
    uncorrected = predictions([as_known_when_it_left(batch) for batch in stream("correct")])
    waited = predictions(stream("wait"))
    # 15 % of each item's chance: the rarest has about 125 conversions in the last quarter, a standard error of 9 %.
    np.testing.assert_allclose(corrected, CONVERSIONS_S, rtol=0.15)
    np.testing.assert_allclose(waited, CONVERSIONS_S, rtol=0.15)
    assert corrected.mean() == pytest.approx(CONVERSIONS_S.mean(), rel=0.06)
    assert np.all(uncorrected < 0.7 * CONVERSIONS_S)


def test_corrections_of_sampled_out_negatives_keep_predictions_where_they_belong() -> None:
    sampled = stream("correct", 0.25)
    assert sum(map(len, sampled)) < 0.6 * sum(map(len, stream("correct")))
    assert predictions(sampled).mean() == pytest.approx(CONVERSIONS_S.mean(), rel=0.1)
