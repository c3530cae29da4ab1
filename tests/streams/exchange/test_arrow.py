"""A mini-batch in Arrow: bit by bit the same, many in one table, and nothing that is not one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from streams.exchange.arrow import from_arrow, to_arrow
from streams.ikjt.arrow_lists import Array, fields_of, struct_of
from streams.minibatch import LINEAGE_DTYPES, MiniBatch
from streams.reshape import slice_batch
from tests.streams.batches import fixed_batch, fixed_partial_batch, mini_batches
from tests.streams.wire.test_codec import same_batch

BATCH = fixed_partial_batch()
LINE = to_arrow(BATCH)


@settings(max_examples=100, deadline=None)
@given(mini_batches())
def test_a_batch_of_any_form_comes_back_from_arrow_bit_by_bit(batch: MiniBatch) -> None:
    for copy in (False, True):
        back = from_arrow(to_arrow(batch), copy=copy)
        assert same_batch(back, batch)
        assert back.content_hash == batch.content_hash


def test_no_column_of_samples_is_copied_in_either_direction() -> None:
    back = from_arrow(LINE)
    for name in LINEAGE_DTYPES:
        assert np.shares_memory(getattr(back.lineage, name), getattr(BATCH.lineage, name))
    assert np.shares_memory(back.labels, BATCH.labels)
    assert np.shares_memory(back.dense, BATCH.dense)


def test_many_batches_are_lines_of_one_stream_and_each_comes_back() -> None:
    parts = [slice_batch(BATCH, 0, 3), slice_batch(BATCH, 3, 5), slice_batch(BATCH, 0, 0), BATCH]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, LINE.schema) as writer:
        for part in parts:
            writer.write_batch(to_arrow(part))
    table = pa.ipc.open_stream(sink.getvalue()).read_all()
    (joined,) = table.combine_chunks().to_batches()
    for n, part in enumerate(parts):
        assert same_batch(from_arrow(table.to_batches()[n]), part)
        assert same_batch(from_arrow(joined, n), part)


def test_a_line_from_before_rates_and_stages_is_read_as_what_was_true_then() -> None:
    back = from_arrow(LINE.drop_columns(["negative_rate", "stage"]))
    assert same_batch(back, BATCH)
    assert (back.negative_rate, back.stage) == (1.0, None)


def without(name: str) -> pa.RecordBatch:
    return LINE.drop_columns([name])


def replaced(name: str, column: Array) -> pa.RecordBatch:
    return LINE.set_column(LINE.schema.get_field_index(name), name, column)


def lineage(**parts: Array) -> Array:
    return struct_of(fields_of(LINE["lineage"], "lineage") | parts)


FIXED: Any = pa.large_list(pa.list_(pa.float32(), 1))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE.replace_schema_metadata(None), r"recd.minibatch = None; this version of recd reads b'1'"),
        (LINE.replace_schema_metadata({"recd.minibatch": "2"}), "recd.minibatch = b'2'"),
        (without("partition"), "there is no column partition"),
        (without("lineage"), "there is no column lineage"),
        (LINE.append_column("price", pa.array([1])), "column price is not part of a mini-batch"),
        (LINE.append_column("labels", pa.array([1])), "columns must be unique"),
        (LINE.slice(0, 0), "no line 0: the record batch has 0"),
        (replaced("partition", pa.array([3])), "column partition: needs int32, not int64"),
        (replaced("sequence", pa.array([None], pa.int64())), "column sequence: 1 of 1 are null"),
        (replaced("sequence", pa.array([-1], pa.int64())), "sequence -1"),
        (replaced("lineage", pa.array([1])), "lineage: needs a struct"),
        (replaced("lineage", lineage(more=pa.array([1]))), "lineage needs offset, event_id, session_id"),
        (replaced("lineage", lineage(offset=pa.array([[1.0]]))), r"lineage.offset: needs int64, not double"),
        (replaced("lineage", lineage(event_id=pa.array([[1]], pa.list_(pa.uint64())))),
         r"lineage.event_id must be \[5\] uint64, not \(1,\)"),
        (replaced("labels", pa.array([[1.0]])), "labels: needs lists of one size, not double"),
        (replaced("labels", pa.array([[[1.0]]], FIXED)), r"labels must be \[5, …\] float32, not \(1, 1\)"),
        (replaced("labels", pa.array([[None]], FIXED)), "labels: 1 samples are null"),
        (replaced("labels", pa.array([[[None]]], FIXED)), "labels: 1 of 1 are null"),
        (replaced("groups", pa.array([1])), "groups: needs a struct"),
    ],
)  # fmt: skip
def test_what_is_no_mini_batch_is_refused_by_name(line: pa.RecordBatch, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_arrow(line)


def test_columns_of_width_zero_and_batches_without_groups_have_no_column() -> None:
    bare = MiniBatch(
        partition=0, sequence=0, watermark_ms=0, fingerprint=0, lineage=fixed_batch().lineage,
        labels=np.zeros((5, 0), np.float32), dense=np.zeros((5, 0), np.float32), groups=(),
    )  # fmt: skip
    line = to_arrow(bare)
    identity = ["partition", "sequence", "watermark_ms", "fingerprint"]
    assert line.schema.names == [*identity, "lineage", "negative_rate", "stage"]
    assert same_batch(from_arrow(line), bare)
