"""Messages to a step of the model, with dense columns in groups: everything between but Kafka."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from sessionizer.config import BatchConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import EmitBatch
from streams import wire
from streams.clock_mark import ClockMark, MarkKind
from streams.events.decode import EventDecoder
from streams.events.roles import Roles
from streams.events.schema import DenseFeature, EventSchema, FeatureGroup, FormName, History, Label, SparseFeature
from streams.ikjt.windows import PartialIkjt
from streams.minibatch import MiniBatch
from trainer.config import ModelConfig, OptimizerConfig, TableConfig
from trainer.model import build_model
from trainer.parity import run_parity
from trainer.step import Step
from trainer.tensors import to_tensors

NUM, START_MS = 400, 1_735_689_600_000
HISTORY = FeatureGroup(name="recent", features=("recent",))
WHO = FeatureGroup(name="who", features=("user", "country"))
PLAIN = EventSchema(
    roles=Roles(event_id=("id",), user="user", item="item", time="at"),
    labels=(Label(name="click", field="click"),),
    sparse=(
        SparseFeature(name="user", field="user", table="user"),
        SparseFeature(name="country", field="country", table="country"),
        SparseFeature(name="item", field="item", table="item"),
    ),
    dense=tuple(DenseFeature(name=name, field=name) for name in ("tenure", "price", "age", "mood")),
    histories=(History(name="recent", table="item", last=8),),
    groups=(WHO, HISTORY),
)
MODEL = ModelConfig(
    tables={name: TableConfig(rows=200) for name in ("user", "country", "item")},
    dim=8, dense_layers=(8,), over_layers=(8,), pooling={"recent": "attention"},
)  # fmt: skip
OPTIMIZER = OptimizerConfig()


def grouped(form: FormName) -> EventSchema:
    """The user's columns with the user, the mood with the history; the price with the sample."""
    return replace(PLAIN, groups=(replace(WHO, dense=("age", "tenure")), replace(HISTORY, form=form, dense=("mood",))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A record of the interactions topic."""

    value: bytes
    offset: int
    key: bytes | None = None
    timestamp: int = START_MS
    topic: str = "interactions"
    partition: int = 0
    headers: Sequence[tuple[str, bytes]] = field(default=())


def log() -> list[dict[str, float]]:
    """Events of few users in order of time; age and tenure are the user's, mood turns now and then."""
    rng = np.random.default_rng(11)
    events = []
    for n in range(NUM):
        user = int(rng.integers(12))
        event = {"id": n, "user": user, "country": user % 3, "item": int(rng.integers(60)), "at": START_MS + 500 * n}
        numbers = {"age": 0.1 * user, "tenure": -0.3 * user, "mood": (n // 100) / 4, "price": float(rng.normal())}
        events.append(event | numbers | {"click": int(rng.integers(2))})
    return events


def mini_batches(schema: EventSchema, events: Sequence[dict[str, float]]) -> list[MiniBatch]:
    """As they leave the wire: every message decoded, sessionized, packed, encoded and read back."""
    decoded = EventDecoder(schema).decode(
        [Message(value=json.dumps(event).encode(), offset=n) for n, event in enumerate(events)]
    )
    assert not decoded.rejected
    core = PartitionCore(schema, SessionConfig(gap_ms=60_000, lateness_ms=0), BatchConfig(samples=64), 0)
    effects = core.feed(decoded.events, rejected=0, next_offset=decoded.next_offset)
    effects += core.apply(ClockMark(partition=0, after_offset=core.next_offset, kind=MarkKind.END))
    return [wire.decode(wire.encode(effect.batch)) for effect in effects if isinstance(effect, EmitBatch)]


@pytest.mark.parametrize("form", ["exact", "partial"])
def test_every_sample_enters_the_network_with_its_events_numbers(form: FormName) -> None:
    events, schema = log(), grouped(form)
    batches = mini_batches(schema, events)
    assert {isinstance(batch.groups[1], PartialIkjt) for batch in batches} == {form == "partial"}
    offsets = np.concatenate([batch.lineage.offset for batch in batches])
    assert sorted(offsets.tolist()) == list(range(NUM))
    sent = np.array([[events[n][name] for name in schema.dense_names] for n in offsets], np.float32)
    for deduplicated in (True, False):
        step = to_tensors(batches, schema, MODEL, deduplicated=deduplicated)
        assert torch.equal(step.dense_BK, torch.from_numpy(sent))
    who = [batch.groups[0] for batch in batches]
    assert sum(group.num_rows for group in who) < NUM / 4
    assert all(group.dense is not None and len(group.dense) == group.num_rows for group in who)


@pytest.mark.parametrize("form", ["exact", "partial"])
def test_count_and_recency_of_a_history_enter_the_network_behind_the_events_numbers(form: FormName) -> None:
    events = log()
    recent = replace(PLAIN.histories[0], count="num_recent", recency="since_recent")
    group = replace(HISTORY, form=form, dense=("mood", "num_recent"))
    schema = replace(PLAIN, histories=(recent,), groups=(WHO, group))
    batches = mini_batches(schema, events)
    offsets = np.concatenate([batch.lineage.offset for batch in batches]).tolist()
    before = [[e["at"] for e in events[:n] if e["user"] == events[n]["user"]] for n in offsets]
    assert max(map(len, before)) > recent.last
    counts = [math.log1p(len(times)) for times in before]
    ages = [(events[n]["at"] - times[-1]) / 1000 if times else None for n, times in zip(offsets, before, strict=True)]
    recencies = [-1.0 if age is None else math.log1p(age) for age in ages]
    made = torch.tensor([counts, recencies]).T
    for deduplicated in (True, False):
        step = to_tensors(batches, schema, MODEL, deduplicated=deduplicated)
        torch.testing.assert_close(step.dense_BK[:, 4:], made, rtol=1e-6, atol=0)
    report = run_parity(batches, schema, MODEL, OPTIMIZER, seed=5, every=2)
    assert report.ok, report.reasons


@pytest.mark.parametrize("form", ["exact", "partial"])
def test_the_same_model_is_trained_with_columns_in_groups_and_without(form: FormName) -> None:
    events, schema = log(), grouped(form)
    ours, plain = (build_model(each, MODEL, OPTIMIZER, seed=5) for each in (schema, PLAIN))
    for one, other in zip(mini_batches(schema, events), mini_batches(PLAIN, events), strict=True):
        mine = Step(ours, OPTIMIZER).run(to_tensors([one], schema, MODEL))
        theirs = Step(plain, OPTIMIZER).run(to_tensors([other], PLAIN, MODEL))
        # The mood makes a few more rows of the history, so sums of gradients may come in another order.
        torch.testing.assert_close(mine.logits_BT, theirs.logits_BT, rtol=1e-4, atol=1e-5)
    report = run_parity(mini_batches(schema, events), schema, MODEL, OPTIMIZER, seed=5, every=2)
    assert report.ok, report.reasons
