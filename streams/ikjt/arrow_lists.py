"""Jagged rows as Arrow lists, and the few ways in which `arrow` takes Arrow data apart. Needs pyarrow.

Owns the type of one feature, list<id> or list<struct<id, weight>>, and what is refused: nulls, other types, and
lists that Arrow itself calls damaged. Every refusal is a ValueError that begins with the column's name.

Shape suffixes: R rows, V values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.kernels import copy_slices

Array: TypeAlias = Any
"""An Arrow array. The stubs of pyarrow know no lists of structs, so mypy is told what is true by the checks below."""

_IDS: Final = (pa.int32(), pa.int64())
_WEIGHTED: Final = ["id", "weight"]


def to_list_array(rows: Jagged) -> Array:
    """[R] lists that share the memory of the rows."""
    ids: Array = pa.array(rows.values)
    if rows.weights is not None:
        ids = struct_of({"id": ids, "weight": pa.array(rows.weights)})
    return _large_list(rows.offsets, ids, pa.field("item", ids.type, nullable=False))


def from_list_array(array: Array, name: str = "column") -> Jagged:
    """[R] lists of any kind as rows. Large lists keep their memory, which is read-only then; others are copied."""
    kind = array.type
    if not any(is_kind(kind) for is_kind in _LISTS):
        raise ValueError(f"{name}: needs lists of int32 or int64 ids, not {kind}")
    _check(array, name)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        offsets = offsets_of(array.sizes.to_numpy())
        starts = array.offsets.to_numpy().astype(np.int64)
        ids, weights = _ids(array.values, name)
        taken = None if weights is None else copy_slices(weights, starts, offsets)
        return Jagged(copy_slices(ids, starts, offsets), offsets, taken)
    if pa.types.is_fixed_size_list(kind):
        ids, weights = _ids(array.flatten(), name)
        return Jagged(ids, np.arange(len(array) + 1, dtype=np.int64) * kind.list_size, weights)
    offsets = array.offsets.to_numpy().astype(np.int64, copy=False) if len(array) else np.zeros(1, np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    ids, weights = _ids(array.values.slice(first, last - first), name)
    return Jagged(ids, offsets - first if first else offsets, weights)


def numbers(array: Array, name: str, kind: pa.DataType) -> npt.NDArray[Any]:
    """The numbers of a column of exactly this type, as a view."""
    if array.type != kind:
        raise ValueError(f"{name}: needs {kind}, not {array.type}")
    _check(array, name)
    view: npt.NDArray[Any] = array.to_numpy(zero_copy_only=True)
    return view


def fields_of(array: Array, name: str) -> dict[str, Array]:
    """The columns of a struct, in order."""
    if not pa.types.is_struct(array.type):
        raise ValueError(f"{name}: needs a struct, not {array.type}")
    _check(array, name)
    names = [field.name for field in array.type]
    if len(set(names)) < len(names):
        raise ValueError(f"{name}: names must be unique, not {names}")
    return dict(zip(names, array.flatten(), strict=True))


def struct_of(columns: Mapping[str, Array], nullable: str | None = None) -> Array:
    """Columns of one length as one; `nullable` is the only one that may hold nulls."""
    fields = [pa.field(name, column.type, nullable=name == nullable) for name, column in columns.items()]
    return pa.StructArray.from_arrays(list(columns.values()), fields=fields)


def only_line(column: Array, item: Array | None = None) -> Array:
    """A whole column as the one list of a column of one line."""
    return _large_list(np.asarray([0, len(column)]), column, item or pa.field("item", column.type, nullable=False))


def list_of(line: Array, name: str) -> Array:
    """The column that is the one list of a column of one line."""
    if not (pa.types.is_list(line.type) or pa.types.is_large_list(line.type)):
        raise ValueError(f"{name}: needs a list, not {line.type}")
    _check(line, name)
    return line[0].values


def _ids(values: Array, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32] | None]:
    """[V] and [V], or None where the ids are not weighted."""
    weights = None
    if pa.types.is_struct(values.type):
        parts = fields_of(values, name)
        if list(parts) != _WEIGHTED:
            raise ValueError(f"{name}: a weighted id is a struct of id and weight, not {list(parts)}")
        values, weights = parts["id"], numbers(parts["weight"], f"{name}, weight", pa.float32())
    if values.type not in _IDS:
        raise ValueError(f"{name}: needs int32 or int64 ids, not {values.type}")
    return numbers(values, name, values.type), weights


def _large_list(offsets: npt.NDArray[np.int64], values: Array, item: Array) -> Array:
    large_list: Any = pa.LargeListArray
    return large_list.from_arrays(pa.array(offsets), values, type=pa.large_list(item))


def _check(array: Array, name: str) -> None:
    if array.null_count:
        raise ValueError(f"{name}: {array.null_count} of {len(array)} are null; nothing here may be absent")


_LISTS: Final = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
