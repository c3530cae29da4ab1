"""Groups in Arrow: bit by bit the same, in the same memory, and nothing that Arrow allows and a group does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.ikjt.arrow import from_arrow, from_columns, from_dictionary, to_arrow, to_dictionary, to_struct
from streams.ikjt.arrow_lists import Array, from_list_array, only_line, struct_of, to_list_array
from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.windows import Group, PartialIkjt
from streams.minibatch import MiniBatch
from tests.streams.batches import fixed_partial_batch, mini_batches
from tests.streams.ikjt.strategies import feature_groups
from tests.streams.ikjt.test_dedup import same_ikjt, same_rows
from tests.streams.ikjt.test_partial import same_group

GROUPS = fixed_partial_batch().groups
USER, ITEM, CLICKS, PROFILE = GROUPS


def ipc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch after a way through Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def named(**columns: Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@settings(max_examples=100, deadline=None)
@given(mini_batches())
def test_groups_of_any_form_come_back_from_arrow_bit_by_bit(batch: MiniBatch) -> None:
    if not batch.groups:
        return
    line = to_arrow(batch.groups)
    for carried in (line, ipc(line)):
        for back in (from_arrow(carried), from_arrow(carried, copy=True)):
            assert all(same_group(a, b) for a, b in zip(back, batch.groups, strict=True))


def test_ids_weights_offsets_windows_and_inverse_are_not_copied_in_either_direction() -> None:
    back = from_arrow(to_arrow(GROUPS))
    for group, other in zip(GROUPS, back, strict=True):
        assert np.shares_memory(group.inverse, other.inverse)
        rows, others = (g.buffers if isinstance(g, PartialIkjt) else g.features for g in (group, other))
        for key in group.keys:
            assert np.shares_memory(rows[key].values, others[key].values)
            assert np.shares_memory(rows[key].offsets, others[key].offsets)
            weights, other_weights = rows[key].weights, others[key].weights
            assert weights is None or (other_weights is not None and np.shares_memory(weights, other_weights))
    assert isinstance(CLICKS, PartialIkjt)
    assert isinstance(back[2], PartialIkjt)
    assert np.shares_memory(CLICKS.start, back[2].start)


def test_copies_may_be_written_to_and_views_may_not() -> None:
    line = to_arrow([USER])
    (view,), (copy,) = from_arrow(line), from_arrow(line, copy=True)
    assert not view.inverse.flags.writeable
    copy.inverse[0] = 0
    copy.features["history"].values[0] = 1
    assert not np.shares_memory(copy.inverse, USER.inverse)


def test_both_forms_have_one_type_so_the_schema_of_a_stream_does_not_depend_on_its_data() -> None:
    assert isinstance(CLICKS, PartialIkjt)
    assert to_struct(CLICKS).type == to_struct(CLICKS.to_exact()).type
    lines = pa.Table.from_batches([to_arrow([CLICKS]), to_arrow([CLICKS.to_exact()])]).combine_chunks().to_batches()[0]
    assert same_group(from_arrow(lines, 0)[0], CLICKS)
    assert same_group(from_arrow(lines, 1)[0], CLICKS.to_exact())


@settings(max_examples=60, deadline=None)
@given(mini_batches())
def test_a_dictionary_has_one_line_a_sample_and_holds_the_exact_group(batch: MiniBatch) -> None:
    for group in batch.groups:
        array = to_dictionary(group)
        assert len(array) == group.num_samples
        carried = ipc(named(g=array)).column(0)
        for each in (array, carried):
            assert same_ikjt(from_dictionary(group.group, each), group.to_exact())


def test_a_dictionary_decodes_to_what_the_samples_are() -> None:
    lines = to_dictionary(PROFILE).dictionary_decode().to_pylist()
    assert lines[0] == {"city": [8], "age": 30.0, "income": 0.5}
    assert [line["city"] for line in lines] == [[8], [8], [8], [9], [9]]


def test_windows_in_a_dictionary_share_the_values_of_their_buffer() -> None:
    views = to_dictionary(CLICKS).dictionary.field("clicked_at")
    assert pa.types.is_list_view(views.type)
    assert isinstance(CLICKS, PartialIkjt)
    assert np.shares_memory(views.values.to_numpy(), CLICKS.buffers["clicked_at"].values)


def test_a_foreign_dictionary_with_unused_and_repeated_rows_becomes_a_valid_group() -> None:
    rows = struct_of({"a": pa.array([[9], [1, 2], [1, 2]], pa.list_(pa.int64()))})
    array: Array = pa.DictionaryArray.from_arrays(pa.array([2, 1, 2], pa.int8()), rows)
    group = from_dictionary("g", array)
    group.validate()
    assert group.inverse.tolist() == [0, 0, 0]
    assert group.expand()["a"].to_lists() == [[1, 2]] * 3


@settings(max_examples=60, deadline=None)
@given(feature_groups())
def test_list_columns_of_samples_are_deduplicated_as_the_rows_themselves(features: dict[str, Jagged]) -> None:
    table = pa.table({key: to_list_array(rows) for key, rows in features.items()})
    (group,) = from_columns(table, {"g": list(features)})
    assert same_ikjt(group, deduplicate("g", features))


KINDS = {
    "list": pa.list_(pa.int64()),
    "large_list": pa.large_list(pa.int64()),
    "list_view": pa.list_view(pa.int64()),
    "large_list_view": pa.large_list_view(pa.int64()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_list_is_read_also_from_the_middle_of_a_column(kind: str) -> None:
    lists = [[1, 2], [], [3], [4, 5, 6]]
    array: Array = pa.array(lists, KINDS[kind])
    assert from_list_array(array).to_lists() == lists
    assert from_list_array(array.slice(1, 2)).to_lists() == [[], [3]]
    assert from_list_array(array.slice(2, 0)).to_lists() == []
    fixed: Array = pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))
    assert from_list_array(fixed.slice(1)).to_lists() == [[3, 4]]


@settings(max_examples=60, deadline=None)
@given(feature_groups(), st.data())
def test_a_slice_of_a_list_array_is_read_as_those_rows(features: dict[str, Jagged], data: st.DataObject) -> None:
    rows = features["feature0"]
    start = data.draw(st.integers(0, rows.num_rows))
    stop = data.draw(st.integers(start, rows.num_rows))
    read = from_list_array(to_list_array(rows).slice(start, stop - start))
    read.validate()
    assert same_rows(read, rows.take(np.arange(start, stop)))


LISTS: Any = pa.array([[1], None], pa.large_list(pa.int64()))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([1, 2]), "h: needs lists of int32 or int64 ids, not int64"),
        (pa.array([[1.5]]), "h: needs int32 or int64 ids, not double"),
        (pa.array([["x"]]), "h: needs int32 or int64 ids, not string"),
        (LISTS, "h: 1 of 2 are null; nothing here may be absent"),
        (pa.array([[1, None]]), "h: 1 of 2 are null"),
        (pa.array([[{"id": 1, "weight": None}]], pa.list_(pa.struct([("id", pa.int64()), ("weight", pa.float32())]))),
         "h, weight: 1 of 1 are null"),
        (pa.array([[{"id": 1}]]), "h: a weighted id is a struct of id and weight, not \\['id'\\]"),
        (pa.array([[{"id": 1, "weight": 0.5}]]), "h, weight: needs float, not double"),
    ],
)  # fmt: skip
def test_lists_that_are_no_rows_of_ids_are_refused_by_name(array: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_list_array(array, "h")


def without(column: Array, name: str) -> Array:
    return struct_of({field.name: column.field(field.name) for field in column.type if field.name != name})


def replaced(column: Array, **parts: Array) -> Array:
    return struct_of({field.name: column.field(field.name) for field in column.type} | parts)


def one(values: list[Any], kind: pa.DataType) -> Array:
    return pa.array([values], pa.large_list(kind))


ROW, WEIGHTS = to_struct(ITEM), to_struct(PROFILE)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (without(ROW, "inverse"), "group g: needs inverse and features"),
        (replaced(ROW, extra=pa.array([1])), "group g: needs inverse and features, may have windows and dense, not"),
        (pa.array([1]), "group g: needs a struct, not int64"),
        (replaced(ROW, inverse=one([0, 1], pa.int64())), "group g, inverse: needs int32, not int64"),
        (replaced(ROW, inverse=pa.array([[0]], pa.list_(pa.float32()))), "group g, inverse: needs int32, not float"),
        (replaced(ROW, inverse=one([0, None], pa.int32())), "group g, inverse: 1 of 2 are null"),
        (replaced(ROW, inverse=pa.array([None], pa.large_list(pa.int32()))), "group g, inverse: 1 of 1 are null"),
        (replaced(ROW, inverse=one([0, 2], pa.int32())), "group g: sample 1 uses row 2 before the rows below it"),
        (replaced(ROW, inverse=one([0, 1], pa.int32())), "group g: samples use 2 rows, but there are 5"),
        (replaced(ROW, features=one([1], pa.int64())), "group g, features: needs a struct"),
        (replaced(ROW, windows=one([1], pa.int64())), "group g, windows: needs a struct"),
        (replaced(ROW, windows=pa.array([[{"start": 9, "length": 1}]],
                  pa.list_(pa.struct([("start", pa.int32()), ("length", pa.int32())])))),
         r"group g: row 0 = \(9, 1\) leaves its buffer"),
        (replaced(WEIGHTS, dense=struct_of({"a": one([1, 2], pa.float32()), "b": one([1], pa.float32())})),
         r"group g: dense columns a, b have \[2, 1\] rows"),
        (replaced(WEIGHTS, dense=struct_of({"a": one([1], pa.float32())})), r"group g: dense must be \[2, 1\] float32"),
        (replaced(WEIGHTS, dense=struct_of({"a": one([1, 2], pa.float64())})), "dense a: needs float, not double"),
    ],
)  # fmt: skip
def test_what_is_no_group_is_refused_by_name(column: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_arrow(named(g=column))


def test_offsets_that_arrow_itself_calls_damaged_are_refused() -> None:
    kind: Any = pa.large_list(pa.int64())
    offsets = pa.py_buffer(np.asarray([0, 3, 2, 5, 5, 5], np.int64).tobytes())
    lists: Array = pa.Array.from_buffers(kind, 5, [None, offsets], children=[pa.array(range(5))])
    features = struct_of({"item": only_line(lists)})
    with pytest.raises(ValueError, match="the record batch is damaged"):
        from_arrow(named(g=replaced(ROW, features=features)))


def test_groups_that_do_not_go_together_and_lines_that_are_not_there_are_refused() -> None:
    other: Group = deduplicate("other", {"x": Jagged.from_lists([[1]])})
    with pytest.raises(ValueError, match=r"different batches: samples are {'user': 5, 'other': 1}"):
        from_arrow(to_arrow([USER, other]))
    with pytest.raises(ValueError, match="no line 1: the record batch has 1"):
        from_arrow(to_arrow([USER]), 1)
    with pytest.raises(ValueError, match="no feature groups to convert"):
        to_arrow([])
    with pytest.raises(ValueError, match="groups need different names"):
        to_arrow([USER, USER])
    with pytest.raises(ValueError, match="group g: samples use 1 rows"):
        to_arrow([Ikjt("g", {"a": Jagged.from_lists([[1], [2]])}, np.zeros(1, np.int32))])
    with pytest.raises(ValueError, match="city is a feature and a dense column"):
        to_dictionary(deduplicate("g", {"city": Jagged.from_lists([[1]])}, np.ones((1, 1), np.float32), ("city",)))
    with pytest.raises(ValueError, match="no column y, or more than one; there are x"):
        from_columns(pa.table({"x": pa.array([[1]])}), {"g": ["y"]})
    with pytest.raises(ValueError, match="group g: needs a dictionary of structs"):
        from_dictionary("g", pa.array([1]))
    nothing: Array = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int32()), struct_of({"a": pa.array([[1]])}))
    with pytest.raises(ValueError, match="a sample without values has an empty list"):
        from_dictionary("g", nothing)
