"""A mini-batch as a dict a sample, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from streams.exchange.records import BatchLayout, from_dicts, to_dicts
from streams.minibatch import MiniBatch
from tests.streams.batches import fixed_partial_batch, mini_batches
from tests.streams.wire.test_codec import same_batch

BATCH = fixed_partial_batch()
LAYOUT = BatchLayout.of(BATCH)


def test_a_sample_shows_its_lineage_labels_dense_columns_and_features() -> None:
    first = to_dicts(BATCH)[0]
    assert first.pop("features")["history"] == [70_001, 70_002]
    assert first == {
        "offset": 100,
        "event_id": 2**64 - 1,
        "session_id": 9,
        "event_time_ms": 1_700_000_000_000,
        "appended_ms": -1,
        "labels": [0.0],
        "dense": [0.5, -1.0],
    }


@settings(max_examples=100, deadline=None)
@given(mini_batches())
def test_a_batch_of_any_form_comes_back_from_records_bit_by_bit(batch: MiniBatch) -> None:
    back = from_dicts(to_dicts(batch), BatchLayout.of(batch))
    assert same_batch(back, batch)
    assert back.content_hash == batch.content_hash


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"price": 1}, "sample 1: needs offset, event_id"),
        ({"event_id": -1}, "sample 1, event_id: -1 is no uint64"),
        ({"offset": 0.5}, "sample 1, offset: 0.5 is no int64"),
        ({"labels": [1.0, 2.0]}, "sample 1, labels: needs 1 numbers, not 2"),
        ({"labels": 1.0}, "sample 1, labels: needs a list, not 1.0"),
        ({"dense": [1.0, None]}, "sample 1, dense: needs a float32, not None"),
        ({"features": {"history": []}}, "sample 1: has no tags"),
    ],
)
def test_a_record_that_is_no_sample_is_refused_by_sample_and_name(changes: dict[str, Any], message: str) -> None:
    records = to_dicts(BATCH)
    records[1] |= changes
    with pytest.raises(ValueError, match=message):
        from_dicts(records, LAYOUT)
