"""Arrow columns to values: numbers as arrays, everything else as codes of the distinct values.

Owns which Arrow types hold a single value. Times are the integers underneath: `event.time_unit` says their unit, as
in every format.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streams.events.ids import Scalar
from streams.events.values import Coded, Typed, Values, scalars_of

Array = Any
"""An Arrow array or chunked array, whose stubs have a type for each type of value."""


def is_scalar(kind: pa.DataType) -> bool:
    """Whether a column of this type holds single values."""
    if isinstance(kind, pa.DictionaryType):
        return is_scalar(kind.value_type) and not isinstance(kind.value_type, pa.DictionaryType)
    return _is_text(kind) or any(is_kind(kind) for is_kind in _SCALARS)


def missing(num: int) -> Coded:
    """N values that are not there."""
    return Coded([None], np.zeros(num, np.int64))


def values_of(column: Array | None, num: int) -> Values:
    """[N], a column of a type that holds single values; None is a column that is not there."""
    if column is None or pa.types.is_null(column.type):
        return missing(num)
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        column = (column.unify_dictionaries() if isinstance(kind, pa.DictionaryType) else column).combine_chunks()
    if isinstance(kind, pa.DictionaryType):
        return _coded(column)
    if pa.types.is_boolean(kind):
        return Coded(
            [False, True, None], column.cast(pa.int8()).fill_null(2).to_numpy(zero_copy_only=False).astype(int)
        )
    if _is_text(kind):
        wide = column.cast(pa.large_string()) if kind != pa.string() else column
        return _coded(wide.dictionary_encode())
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    if not column.null_count:
        return Typed(column.to_numpy(zero_copy_only=False))
    gone = column.is_null().to_numpy(zero_copy_only=False)
    return Typed(column.fill_null(0).to_numpy(zero_copy_only=False), gone)


def _coded(array: Array) -> Coded:
    """A dictionary array; a null is a code of its own."""
    distinct: list[Scalar] = scalars_of(_small(array.dictionary))
    codes = array.indices
    if codes.null_count:
        codes = codes.cast(pa.int64()).fill_null(len(distinct))
        distinct = [*distinct, None]
    return Coded(distinct, codes.to_numpy(zero_copy_only=False).astype(np.int64))


def _small(array: Array) -> Values:
    """The values of a dictionary, as Python's own where they are texts."""
    return array.to_pylist() if _is_text(array.type) else values_of(array, len(array))


def _is_text(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


_SCALARS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_null,
    pa.types.is_timestamp,
    pa.types.is_date64,
)
