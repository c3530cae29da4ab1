"""List features: the lists of a poll, undecoded where their format allows it, to their distinct rows.

Owns the comparison of lists and the decoding of each distinct one. As JSON, lists cost ten to thirty times
everything else in a message, and within a session they repeat byte for byte: only
new bytes are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, cast

import msgspec
import numpy as np
import numpy.typing as npt

from streams.errors import PoisonError, Reason
from streams.events.columns import Verdicts
from streams.events.event import I64, ListColumn
from streams.events.ids import NO_ID, Scalar, feature_id
from streams.ikjt.jagged import Jagged, offsets_of

_INTEGERS: Final = msgspec.json.Decoder(list[int])
_SCALARS: Final = msgspec.json.Decoder(list[Scalar])
MISSING_TEXTS: Final = (b"", b"null")
"""What stands in place of a list that is missing."""


def list_column(
    keys: Sequence[Hashable],
    decode: Callable[[Any], Sequence[int]],
    which: I64,
    *,
    field: str,
    places: I64,
    verdicts: Verdicts,
) -> ListColumn:
    """The column of one list feature; rows are empty where an event is not chosen, or its list missing or wrong.

    `keys`: what tells lists apart, one an event; `decode`: a key to the ids of its list, or PoisonError.
    """
    seen: dict[Hashable, int] = {}
    index = np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int32)
    rows: list[Sequence[int]] = []
    failed: dict[int, PoisonError] = {}
    for row, key in enumerate(seen):
        try:
            rows.append(decode(key))
        except PoisonError as error:
            failed[row] = error
            rows.append([])
    reject_rows(index, failed, which, field=field, places=places, verdicts=verdicts)
    if len(which) < len(keys):
        unchosen = np.ones(len(keys), dtype=np.bool_)
        unchosen[which] = False
        index[unchosen] = len(rows)
        rows.append([])
    return ListColumn(rows=_jagged(rows), index=index)


def reject_rows(
    index: npt.NDArray[np.int32],
    failed: Mapping[int, PoisonError],
    which: I64,
    *,
    field: str,
    places: I64,
    verdicts: Verdicts,
) -> None:
    """Reject the chosen events whose row is among the failed ones."""
    for i in which[np.isin(index[which], list(failed))].tolist() if failed else ():
        why = failed[int(index[i])]
        verdicts.reject(int(places[i]), PoisonError(why.reason, f"field {field}: {why.detail}"))


def missing_list(*, required: bool) -> list[int]:
    """The row of an event without the list. Raises PoisonError if it is required."""
    if required:
        raise PoisonError(Reason.MISSING_FIELD, "the list is missing")
    return []


def row_of_values(values: tuple[Scalar, ...] | str | None, *, required: bool) -> Sequence[int]:
    """The ids of a list of scalars; a string says why it is none."""
    if values is None:
        return missing_list(required=required)
    if isinstance(values, str):
        raise PoisonError(Reason.WRONG_TYPE, f"not a list of ids: {values}")
    if set(map(type, values)) <= {int}:
        integers = cast("tuple[int, ...]", values)
        if not integers or (min(integers) > NO_ID and max(integers) < 1 << 63):
            return integers
    return [feature_id(value) for value in values]


def row_of_json(raw: bytes) -> list[int]:
    """The ids of a list that is JSON text. PoisonError if it is none."""
    try:
        ids = _INTEGERS.decode(raw)
        if not ids or (min(ids) > -(1 << 63) and max(ids) < 1 << 63):
            return ids
    except msgspec.DecodeError:
        # Strings, floats, or no list at all.
        pass
    try:
        return [feature_id(value) for value in _SCALARS.decode(raw)]
    except msgspec.ValidationError as error:
        raise PoisonError(Reason.WRONG_TYPE, f"not a list of ids: {error}") from None
    except msgspec.DecodeError as error:
        # While a field is skipped, nobody looks at how its texts are encoded.
        raise PoisonError(Reason.BROKEN_JSON, f"not a list of ids: {error}") from None


def _jagged(rows: Sequence[Sequence[int]]) -> Jagged:
    offsets = offsets_of(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)))
    values = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(offsets[-1]))
    return Jagged(values, offsets)
