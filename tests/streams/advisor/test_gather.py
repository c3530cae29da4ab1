"""Mini-batches become a sample in which rows are held once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streams.advisor.gather import Gatherer
from streams.errors import InvariantError
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.minibatch import MiniBatch
from tests.streams.batches import fixed_batch


def batch(sessions: list[int], lists: list[list[int]], partition: int = 0) -> MiniBatch:
    base = fixed_batch()
    num = len(sessions)
    lineage = replace(
        base.lineage,
        offset=np.arange(num, dtype=np.int64),
        event_id=np.arange(num, dtype=np.uint64),
        session_id=np.array(sessions, np.uint64),
        event_time_ms=np.arange(num, dtype=np.int64),
        appended_ms=np.full(num, -1, np.int64),
    )
    groups = (deduplicate("clicked", {"clicked": Jagged.from_lists(lists)}),)
    return replace(base, partition=partition, lineage=lineage, labels=base.labels[:num], groups=groups)


def test_a_row_that_two_batches_hold_is_held_once() -> None:
    gatherer = Gatherer(["clicked"])
    gatherer.add(batch([7, 7], [[1, 2], [3]]))
    gatherer.add(batch([9, 7], [[3], [1, 2]], partition=1))
    sample = gatherer.sample()
    assert sample.columns["clicked"].rows.to_lists() == [[1, 2], [3]]
    assert sample.columns["clicked"].index.tolist() == [0, 1, 1, 0]
    assert sample.session.tolist() == [0, 0, 1, 0]
    assert sample.batch.tolist() == [0, 0, 1, 1]
    assert sample.partition.tolist() == [0, 0, 1, 1]
    assert (sample.num_sessions, sample.num_partitions) == (2, 2)


def test_memory_does_not_grow_with_rows_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.advisor.gather._FIRST_BYTES", 100_000)
    gatherer = Gatherer(["clicked"])
    row = list(range(1_000))
    for _ in range(200):
        gatherer.add(batch([1], [row]))
    assert gatherer.held_bytes < 200_000
    assert gatherer.sample().columns["clicked"].rows.to_lists() == [row]


def test_groups_of_several_features_are_refused() -> None:
    with pytest.raises(InvariantError, match="not one feature each"):
        Gatherer(["history", "tags", "item"]).add(fixed_batch())


def test_nothing_gathered_is_no_sample() -> None:
    with pytest.raises(ValueError, match="no mini-batch"):
        Gatherer(["clicked"]).sample()
