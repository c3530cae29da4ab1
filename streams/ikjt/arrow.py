"""Feature groups as Arrow data, and back, without copying an id. Needs pyarrow; import it where that is wanted.

Owns the layout of a group in Arrow. Files are `streams.exchange.parquet`; finding duplicates is `dedup`.

The columns of a group have three lengths: the inverse has B entries, the rows are U, the buffers of a partial group
P. A table with a line a sample cannot hold that, and Parquet has no dictionaries of lists. So one batch is one line,
and every column of ours is one list in it; many batches are many lines of one table or file:

    user: struct<
      inverse:  large_list<int32>                                 [B]
      features: struct<history: large_list<large_list<int64>>>    [U] rows, or [P] buffers where there are windows
      windows:  large_list<struct<start: int32, length: int32>>   [U]; null in the exact form
      dense:    struct<age: large_list<float>>                    [U] each; absent where there are no dense columns
    >

- A large_list has 64-bit offsets and its values side by side: a `Jagged`, byte for byte. Nothing is copied either
  way but dense columns, which are side by side here and a matrix there.
- A weighted id is a struct<id, weight>, so a weight can neither be missing nor left over.
- Both forms have one type. Were it not so, which schema a batch has would depend on its data, and a file could not
  hold a group that shifts in one batch and does not in the next.
- `UNNEST`, `explode` and their like give the rows, and the inverse, to any tool that reads Parquet.

`to_dictionary` is the other way to see a group: one line a sample, for work in memory and for IPC. Arrow's
DictionaryArray is an exact IKJT; what it cannot say is where buffers end, so a partial group comes back exact.

Shapes: B samples, U distinct rows, P buffers, V values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from streams.ikjt.arrow_lists import (
    Array,
    fields_of,
    from_list_array,
    list_of,
    numbers,
    only_line,
    struct_of,
    to_list_array,
)
from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import F32, Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.windows import Group, PartialIkjt

_INT32: Final = pa.field("item", pa.int32(), nullable=False)
_FLOAT: Final = pa.field("item", pa.float32(), nullable=False)
_WINDOW: Final = pa.struct([pa.field(name, pa.int32(), nullable=False) for name in ("start", "length")])
_WINDOWS: Final = pa.large_list(pa.field("item", _WINDOW, nullable=False))


def to_arrow(groups: Sequence[Group]) -> pa.RecordBatch:
    """One line, one column a group. Shares the memory of ids, weights, offsets and inverse."""
    if not groups:
        raise ValueError("no feature groups to convert; give at least one")
    names = [group.group for group in groups]
    if len(set(names)) < len(names):
        raise ValueError(f"groups need different names, not {names}")
    columns = [to_struct(group) for group in groups]
    fields = [pa.field(name, column.type, nullable=False) for name, column in zip(names, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def from_arrow(batch: pa.RecordBatch, line: int = 0, *, copy: bool = False) -> tuple[Group, ...]:
    """The groups of one line of what `to_arrow` gives, or another writer of the same layout.

    Arrays are read-only views of Arrow's memory, unless `copy` asks for arrays of their own. Trusts nothing: raises
    ValueError that names the column for whatever is not a batch of valid groups.
    """
    if not 0 <= line < batch.num_rows:
        raise ValueError(f"no line {line}: the record batch has {batch.num_rows}")
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the record batch is damaged: {error}") from error
    groups = tuple(
        from_struct(name, column.slice(line, 1), copy=copy)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    )
    num_samples = {group.group: group.num_samples for group in groups}
    if len(set(num_samples.values())) > 1:
        raise ValueError(f"groups of different batches: samples are {num_samples}")
    return groups


def to_struct(group: Group) -> Array:
    """A group as one line of the layout above."""
    group.validate()
    rows = group.buffers if isinstance(group, PartialIkjt) else group.features
    lists = {key: only_line(to_list_array(each)) for key, each in rows.items()}
    columns: dict[str, Array] = {
        "inverse": only_line(pa.array(group.inverse), _INT32),
        "features": struct_of(lists),
        "windows": _windows(group) if isinstance(group, PartialIkjt) else pa.nulls(1, _WINDOWS),
    }
    if group.dense is not None:
        columns["dense"] = struct_of(
            {name: only_line(column, _FLOAT) for name, column in _dense_columns(group).items()}
        )
    return struct_of(columns, nullable="windows")


def from_struct(group: str, column: Array, *, copy: bool = False) -> Group:
    """The group of a column of one line. Raises ValueError that names what is wrong."""
    parts = fields_of(column, f"group {group}")
    unknown = [name for name in parts if name not in {"inverse", "features", "windows", "dense"}]
    if unknown or "inverse" not in parts or "features" not in parts:
        raise ValueError(f"group {group}: needs inverse and features, may have windows and dense, not {list(parts)}")
    inverse = numbers(list_of(parts["inverse"], f"group {group}, inverse"), f"group {group}, inverse", pa.int32())
    rows = {
        key: from_list_array(list_of(lists, f"group {group}, feature {key}"), f"group {group}, feature {key}")
        for key, lists in fields_of(parts["features"], f"group {group}, features").items()
    }
    dense, names = _dense(parts.get("dense"), group)
    windows = parts.get("windows")
    if copy:
        inverse, rows = inverse.copy(), {key: _copied(each) for key, each in rows.items()}
    read: Group = Ikjt(group, rows, inverse, dense, names)
    if windows is not None and windows.null_count == 0:
        name = f"group {group}, windows"
        ends = fields_of(list_of(windows, name), name)
        if list(ends) != ["start", "length"]:
            raise ValueError(f"{name}: needs start and length, not {list(ends)}")
        start, length = (numbers(each, f"{name}.{end}", pa.int32()) for end, each in ends.items())
        if copy:
            start, length = start.copy(), length.copy()
        read = PartialIkjt(group, rows, start, length, inverse, dense, names)
    read.validate()
    return read


def to_dictionary(group: Group) -> Array:
    """One line a sample, [B]: the inverse as indices of a struct of the U distinct rows, by key and dense column.

    Rows of a partial group are list views: windows of values that are stored once, as in the group itself.
    """
    if isinstance(group, PartialIkjt):
        starts: Array = pa.array(group.start)
        lengths: Array = pa.array(group.length)
        list_view: Array = pa.ListViewArray
        columns: dict[str, Array] = {
            key: list_view.from_arrays(starts, lengths, to_list_array(rows).values)
            for key, rows in group.buffers.items()
        }
    else:
        columns = {key: to_list_array(rows) for key, rows in group.features.items()}
    dense = _dense_columns(group)
    both = columns.keys() & dense.keys()
    if both:
        raise ValueError(f"group {group.group}: {min(both)} is a feature and a dense column; rename one of them")
    columns |= dense
    indices: Array = pa.array(group.inverse)
    return pa.DictionaryArray.from_arrays(indices, struct_of(columns))


def from_dictionary(group: str, array: Array) -> Ikjt:
    """The exact group of B samples of a dictionary of structs, whoever made it and in whichever order.

    Columns of lists are features, columns of float32 dense. Rows that nothing uses and rows that repeat are left
    out. Raises ValueError that names the column.
    """
    if not isinstance(array, pa.DictionaryArray) or not pa.types.is_struct(array.type.value_type):
        raise ValueError(f"group {group}: needs a dictionary of structs, not {array.type}")
    if array.null_count or array.dictionary.null_count:
        raise ValueError(f"group {group}: has nulls; a sample without values has an empty list")
    array.validate(full=True)
    columns = fields_of(array.dictionary, f"group {group}")
    floats = [name for name, column in columns.items() if pa.types.is_floating(column.type)]
    rows = {
        key: from_list_array(column, f"group {group}, feature {key}")
        for key, column in columns.items()
        if key not in floats
    }
    dense = None
    if floats:
        matrix = [numbers(columns[name], f"group {group}, dense {name}", pa.float32()) for name in floats]
        dense = np.stack(matrix, axis=1)
    used = array.indices.to_numpy().astype(np.int64)
    kept = None if dense is None else dense[used]
    return deduplicate(group, {key: each.take(used) for key, each in rows.items()}, kept, floats)


def from_columns(table: pa.Table | pa.RecordBatch, groups: Mapping[str, Sequence[str]]) -> tuple[Ikjt, ...]:
    """Plain list columns, one line a sample, deduplicated. `groups` is name to columns. Raises ValueError by name."""
    names = [key for keys in groups.values() for key in keys]
    unknown = [key for key in names if table.schema.names.count(key) != 1]
    if unknown:
        raise ValueError(f"no column {unknown[0]}, or more than one; there are {', '.join(table.schema.names)}")
    return tuple(
        deduplicate(group, {key: from_list_array(_column(table, key), f"column {key}") for key in keys})
        for group, keys in groups.items()
    )


def _column(table: pa.Table | pa.RecordBatch, key: str) -> Array:
    column = table.column(key)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _windows(group: PartialIkjt) -> Array:
    ends = {"start": pa.array(group.start), "length": pa.array(group.length)}
    return only_line(struct_of(ends), pa.field("item", _WINDOW, nullable=False))


def _dense_columns(group: Group) -> dict[str, Array]:
    """Name to [U]; copied, since they are side by side in the group."""
    if group.dense is None:
        return {}
    return dict(zip(group.dense_names, map(pa.array, np.ascontiguousarray(group.dense.T)), strict=True))


def _dense(column: Array | None, group: str) -> tuple[F32 | None, tuple[str, ...]]:
    """[U, K] and its names."""
    if column is None:
        return None, ()
    columns = fields_of(column, f"group {group}, dense")
    matrix = [
        numbers(list_of(lists, f"group {group}, dense {name}"), f"group {group}, dense {name}", pa.float32())
        for name, lists in columns.items()
    ]
    num_rows = [len(each) for each in matrix]
    if len(set(num_rows)) != 1:
        raise ValueError(f"group {group}: dense columns {', '.join(columns)} have {num_rows} rows")
    return np.stack(matrix, axis=1), tuple(columns)


def _copied(rows: Jagged) -> Jagged:
    return Jagged(rows.values.copy(), rows.offsets.copy(), None if rows.weights is None else rows.weights.copy())
