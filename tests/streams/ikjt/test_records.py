"""Samples as plain Python: what a person expects to see, and the same groups back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.ikjt.layout import FeatureLayout, GroupLayout
from streams.ikjt.records import from_dicts, to_dicts
from streams.minibatch import MiniBatch
from tests.streams.batches import fixed_partial_batch, mini_batches
from tests.streams.ikjt.test_partial import same_group

BATCH = fixed_partial_batch()
LAYOUTS = tuple(map(GroupLayout.of, BATCH.groups))
NARROW = np.dtype(np.int32)


def test_a_sample_is_a_flat_dict_of_lists_pairs_and_numbers() -> None:
    first = to_dicts(BATCH.groups)[0]
    assert first == {
        "history": [70_001, 70_002],
        "tags": [(11, 1.0), (12, 0.5)],
        "item": [1],
        "clicks": [(501, 1.0), (502, 2.0)],
        "clicked_at": [1, 2],
        "city": [8],
        "age": 30.0,
        "income": 0.5,
    }


def test_every_sample_has_lists_of_its_own() -> None:
    first, second, *_ = to_dicts(BATCH.groups)
    first["history"].append(1)
    assert second["history"] == [70_001, 70_002]


@settings(max_examples=100, deadline=None)
@given(mini_batches())
def test_groups_of_any_form_come_back_from_records_bit_by_bit(batch: MiniBatch) -> None:
    if not batch.groups:
        return
    layouts = tuple(map(GroupLayout.of, batch.groups))
    back = from_dicts(to_dicts(batch.groups), layouts, batch.lineage.session_id)
    assert all(same_group(a, b) for a, b in zip(back, batch.groups, strict=True))


def test_records_that_have_been_json_come_back_too() -> None:
    records = json.loads(json.dumps(to_dicts(BATCH.groups)))
    back = from_dicts(records, LAYOUTS, BATCH.lineage.session_id)
    assert all(same_group(a, b) for a, b in zip(back, BATCH.groups, strict=True))


def test_numpy_numbers_are_numbers() -> None:
    layout = GroupLayout("g", {"a": FeatureLayout()}, ("x",))
    (group,) = from_dicts([{"a": [np.int32(7)], "x": np.float32(0.5)}], [layout])
    assert to_dicts([group]) == [{"a": [7], "x": 0.5}]


PLAIN = GroupLayout("g", {"a": FeatureLayout(NARROW), "w": FeatureLayout(weighted=True)}, ("x",))
GOOD: dict[str, Any] = {"a": [1], "w": [(1, 0.5)], "x": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"a": [1], "w": []}, "sample 1: has no x; the layouts have a, w, x"),
        (GOOD | {"b": 1}, "sample 1: holds b, which no layout describes"),
        (GOOD | {"a": 1}, "sample 1, feature a: needs a list, not 1"),
        (GOOD | {"a": [1.5]}, "sample 1, feature a: 1.5 is no int32"),
        (GOOD | {"a": [True]}, "sample 1, feature a: True is no int32"),
        (GOOD | {"a": ["1"]}, "sample 1, feature a: '1' is no int32"),
        (GOOD | {"a": [None]}, "sample 1, feature a: None is no int32"),
        (GOOD | {"a": [2**31]}, "sample 1, feature a: 2147483648 is no int32"),
        (GOOD | {"w": [2]}, r"sample 1, feature w: needs \(id, weight\), not 2"),
        (GOOD | {"w": [(2**63, 1)]}, "sample 1, feature w: 9223372036854775808 is no int64"),
        (GOOD | {"w": [(1, "x")]}, "sample 1, feature w: needs a float32, not 'x'"),
        (GOOD | {"x": 1e39}, "sample 1, x: needs a float32, not 1e"),
    ],
)
def test_a_record_that_no_layout_describes_is_refused_by_sample_and_key(record: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_dicts([GOOD, record], [PLAIN])


def test_names_that_are_not_unique_and_sessions_that_are_missing_are_refused() -> None:
    with pytest.raises(ValueError, match="give the session_id of the samples"):
        from_dicts(to_dicts(BATCH.groups), LAYOUTS)
    with pytest.raises(ValueError, match="history is there twice"):
        to_dicts([BATCH.groups[0], BATCH.groups[0]])
    both = deduplicate("g", {"x": Jagged.from_lists([[1]])}, np.ones((1, 1), np.float32), ("x",))
    with pytest.raises(ValueError, match="x is there twice; in a record"):
        to_dicts([both])
    other = deduplicate("other", {"x": Jagged.from_lists([[1]])})
    with pytest.raises(ValueError, match=r"different batches: samples are {'user': 5, 'other': 1}"):
        to_dicts([BATCH.groups[0], other])
    with pytest.raises(ValueError, match="no feature groups to convert"):
        to_dicts([])
