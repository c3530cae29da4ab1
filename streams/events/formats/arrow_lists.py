"""Arrow lists to distinct rows of ids.

Owns which Arrow types hold a list of ids. A dictionary of lists is what a list column is, and stays as it is; other
lists are compared as ids, exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streams.errors import PoisonError
from streams.events.columns import INTEGERS, Verdicts, convert
from streams.events.event import I64, ListColumn
from streams.events.formats.arrow_values import Array, is_scalar, values_of
from streams.events.ids import NO_ID, feature_id
from streams.events.lists import missing_list, reject_rows
from streams.ikjt.dedup import number_rows
from streams.ikjt.jagged import Jagged, offsets_of


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists of ids."""
    if isinstance(kind, pa.DictionaryType):
        return is_list(kind.value_type) and not isinstance(kind.value_type, pa.DictionaryType)
    if pa.types.is_null(kind):
        return True
    return isinstance(kind, (pa.ListType, pa.LargeListType, pa.FixedSizeListType)) and is_scalar(kind.value_type)


def list_values(
    column: Array | None, which: I64, *, num: int, field: str, required: bool, places: I64, verdicts: Verdicts
) -> ListColumn:
    """[N] rows of a column that holds lists; None is a column that is not there. As `Messages.lists`."""
    chunks = [] if column is None or pa.types.is_null(column.type) else [c for c in column.chunks if len(c)]
    if not chunks:
        rows, index, failed = Jagged.from_lists([]), np.full(num, -1, np.int32), dict[int, PoisonError]()
    else:
        rows, index, failed = _joined([_chunk(chunk) for chunk in chunks])
    # One row more, without ids: of events that have no list, and of those that are not chosen.
    empty = rows.num_rows
    rows = Jagged(rows.values, np.append(rows.offsets, rows.offsets[-1]))
    index = np.where(index < 0, np.int32(empty), index)
    try:
        missing_list(required=required)
    except PoisonError as error:
        failed[empty] = error
    reject_rows(index, failed, which, field=field, places=places, verdicts=verdicts)
    if len(which) < num:
        unchosen = np.ones(num, np.bool_)
        unchosen[which] = False
        index[unchosen] = empty
    return ListColumn(rows=rows, index=index)


_Rows = tuple[Jagged, npt.NDArray[np.int32], dict[int, PoisonError]]
"""Rows; the row of each event, -1 where its list is missing; and what is wrong with some rows."""


def _joined(parts: list[_Rows]) -> _Rows:
    starts = np.cumsum([0, *(rows.num_rows for rows, _, _ in parts)]).tolist()
    index = [np.where(own < 0, own, own + np.int32(start)) for (_, own, _), start in zip(parts, starts, strict=False)]
    failed = {
        row + start: error for (_, _, own), start in zip(parts, starts, strict=False) for row, error in own.items()
    }
    return Jagged.concat([rows for rows, _, _ in parts]), np.concatenate(index), failed


def _chunk(array: Array) -> _Rows:
    if isinstance(array.type, pa.DictionaryType):
        rows, own, failed = _rows(array.dictionary)
        codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        # A list of the dictionary may be null itself.
        return rows, np.where(codes < 0, np.int32(-1), own[codes] if len(own) else np.int32(-1)), failed
    rows, own, failed = _rows(array)
    if failed:
        return rows, own, failed
    first, inverse = number_rows({"ids": rows})
    return rows.take(first), np.where(own < 0, own, inverse), failed


def _rows(array: Array) -> _Rows:
    """Each list as a row of its own; where it is missing an empty one."""
    gone = array.is_null().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = offsets_of(lengths)
    own = np.where(gone, np.int32(-1), np.arange(len(array), dtype=np.int32))
    if pa.types.is_null(array.type.value_type):
        # Lists of nothing: as long as they say, which is never looked at.
        failed = {int(row): _no_id() for row in np.flatnonzero(lengths)}
        return Jagged(np.empty(0, np.int64), np.zeros(len(array) + 1, np.int64)), own, failed
    told = Verdicts()
    num = int(offsets[-1])
    values = values_of(array.flatten(), num)
    where = np.arange(num, dtype=np.int64)
    ids = convert(values, feature_id, np.int64, as_they_are=INTEGERS, field="", positions=where, verdicts=told)
    if (ids == NO_ID).any():
        ids = convert(values, feature_id, np.int64, field="", positions=where, verdicts=told)
    failed = {}
    for place, error in sorted(told.found.items()):
        row = int(np.searchsorted(offsets, place, side="right")) - 1
        failed.setdefault(row, PoisonError(error.reason, error.detail.removeprefix("field : ")))
    return Jagged(ids, offsets), own, failed


def _no_id() -> PoisonError:
    try:
        feature_id(None)
    except PoisonError as error:
        return error
    raise AssertionError("None is no id")
