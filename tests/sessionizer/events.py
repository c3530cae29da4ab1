"""Small event streams for tests: schema, columns from plain tuples, hypothesis strategies."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from sessionizer.config import BatchConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import Effect, EmitBatch
from streams.clock_mark import ClockMark, MarkKind
from streams.events.event import EventBatch
from streams.events.ids import NO_ID
from streams.events.roles import Roles
from streams.events.schema import EventKind, EventSchema, FeatureGroup, History, Label, SparseFeature
from streams.minibatch import MiniBatch
from streams.stage import Stage
from tests.sessionizer.oracle import Ev

LAST = 3

SCHEMA = EventSchema(
    roles=Roles(event_id=("id",), user="user", item="item", time="time"),
    labels=(Label(name="liked", field="liked"),),
    sparse=(
        SparseFeature(name="user", field="user", table="users"),
        SparseFeature(name="item", field="item", table="items"),
    ),
    histories=(History(name="liked_items", table="items", last=LAST, label="liked"),),
    groups=(FeatureGroup(name="user", features=("user",)), FeatureGroup(name="history", features=("liked_items",))),
)


MEASURED = dataclasses.replace(
    SCHEMA,
    histories=(dataclasses.replace(SCHEMA.histories[0], count="num_liked", recency="since_liked"),),
    groups=(SCHEMA.groups[0], dataclasses.replace(SCHEMA.groups[1], dense=("num_liked",))),
)
"""The count is kept with its history, the recency with the samples."""


def columns(events: Sequence[Ev], first_offset: int = 0, schema: EventSchema = SCHEMA) -> EventBatch:
    """Events with consecutive offsets."""
    n = len(events)
    table = np.array(events, np.int64).reshape(n, len(Ev._fields))
    time, event_id, user, item, label, content, kind, of, seconds = table.T
    said = np.stack([label, seconds], axis=1).astype(np.float32)[:, : len(schema.labels)]
    item = np.where((kind == EventKind.OUTCOME) & (item == 0), NO_ID, item)
    return EventBatch(
        offset=np.arange(first_offset, first_offset + n),
        event_time_ms=time,
        event_id=event_id.astype(np.uint64),
        content_hash=content.astype(np.uint64),
        user=user,
        item=item,
        kind=kind.astype(np.uint8),
        impression=np.where(kind == EventKind.OUTCOME, of, event_id).astype(np.uint64),
        appended_ms=np.full(n, -1),
        labels=np.where((said < 0) | (kind == EventKind.IMPRESSION)[:, None], np.float32(np.nan), said),
        dense=np.empty((n, 0), np.float32),
        ids=np.stack([user, item], axis=1),
        lists=(),
    )


def new_core(config: SessionConfig, batch_samples: int = 4, partition: int = 0) -> PartitionCore:
    return PartitionCore(SCHEMA, config, BatchConfig(samples=batch_samples), partition)


def run(
    core: PartitionCore, events: Sequence[Ev], polls: Sequence[int] = (), schema: EventSchema = SCHEMA
) -> list[Effect]:
    """Feed all events, divided into polls at the given places, then an end mark."""
    effects: list[Effect] = []
    bounds = sorted({0, *(p for p in polls if p < len(events)), len(events)})
    for start, end in pairwise(bounds):
        effects += core.feed(columns(events[start:end], start, schema), rejected=0, next_offset=end)
    return effects + core.apply(ClockMark(partition=core.partition, after_offset=core.next_offset, kind=MarkKind.END))


def batches_of(effects: Sequence[Effect]) -> list[MiniBatch]:
    return [effect.batch for effect in effects if isinstance(effect, EmitBatch)]


def labels_of(batches: Sequence[MiniBatch]) -> dict[int, list[float]]:
    """Offset to labels, corrections left out."""
    rows = [
        (offset, labels)
        for batch in batches
        for offset, labels, stage in zip(batch.lineage.offset, batch.labels, batch.stages, strict=True)
        if stage != Stage.CORRECTION
    ]
    rows = [(int(offset), labels.tolist()) for offset, labels in rows]
    assert len(rows) == len(dict(rows)), "a sample came twice"
    return dict(rows)


def stages_of(batches: Sequence[MiniBatch]) -> dict[int, int]:
    """Offset to the stage in which the sample left."""
    return {
        offset: stage
        for batch in batches
        for offset, stage in zip(batch.lineage.offset.tolist(), batch.stages.tolist(), strict=True)
        if stage != Stage.CORRECTION
    }


def corrections_of(batches: Sequence[MiniBatch]) -> list[tuple[int, tuple[int, ...]]]:
    """Offset and turned labels of every correction; none of them comes before its sample."""
    found: list[tuple[int, tuple[int, ...]]] = []
    left: set[int] = set()
    for batch in batches:
        assert np.all(np.isnan(batch.labels) | (batch.labels == 1) | (batch.stages != Stage.CORRECTION)[:, None])
        for offset, _, stage, turned in batch.identities():
            if stage != Stage.CORRECTION:
                left.add(offset)
                continue
            assert turned, "a correction says something"
            assert offset in left, "a correction came before its sample"
            found.append((offset, turned))
    return sorted(found)


def histories_of(batches: Sequence[MiniBatch]) -> dict[int, list[int]]:
    """Offset to liked items."""
    found: dict[int, list[int]] = {}
    corrected: list[tuple[int, list[int]]] = []
    for batch in batches:
        (group,) = [group for group in batch.groups if group.group == "history"]
        rows = group.expand()["liked_items"].to_lists()
        for offset, stage, row in zip(batch.lineage.offset.tolist(), batch.stages.tolist(), rows, strict=True):
            if stage == Stage.CORRECTION:
                corrected.append((offset, row))
            else:
                found[offset] = row
    for offset, row in corrected:
        assert row == found[offset], "a correction has another history than its sample"
    return found


def seen_of(batches: Sequence[MiniBatch], schema: EventSchema, which: int = 0) -> dict[int, tuple[int, int | None]]:
    """Offset to (entries seen, milliseconds since the newest one), as a history's count and recency tell them."""
    count, recency = schema.histories[which].measures
    found: dict[int, tuple[int, int | None]] = {}
    for batch in batches:
        columns = dict(zip(schema.ungrouped_dense, batch.dense.T, strict=True))
        for group in batch.groups:
            if (dense := group.expand_dense()) is not None:
                columns |= dict(zip(group.dense_names, dense.T, strict=True))
        for offset, entries, age in zip(batch.lineage.offset.tolist(), columns[count], columns[recency], strict=True):
            ms = None if age == -1 else round(1000 * math.expm1(age))
            told = round(math.expm1(entries)), ms
            assert found.setdefault(offset, told) == told, "a correction was told something else than its sample"
    return found


def offsets_of(batches: Sequence[MiniBatch]) -> list[list[int]]:
    """Offsets of each batch."""
    return [batch.lineage.offset.tolist() for batch in batches]


@st.composite
def streams(draw: st.DrawFn, max_size: int = 60) -> list[Ev]:
    """Few users, ids and times, so that ties, duplicates, lateness and every cap are common."""
    event = st.builds(
        Ev,
        time=st.integers(1000, 1060),
        id=st.integers(0, 40),
        user=st.integers(1, 4),
        item=st.integers(100, 105),
        label=st.integers(0, 1),
        hash=st.integers(0, 2),
        kind=st.just(EventKind.LABELLED),
        of=st.just(0),
        seconds=st.just(-1),
    )
    return draw(st.lists(event, max_size=max_size))


configs = st.builds(
    SessionConfig,
    gap_ms=st.integers(1, 20),
    lateness_ms=st.integers(0, 40),
    duplicate_horizon_ms=st.integers(1, 30),
    max_samples=st.integers(1, 5),
    max_age_ms=st.integers(1, 30),
    max_held_samples=st.integers(5, 12),
    max_pending_events=st.integers(1, 60),
)
