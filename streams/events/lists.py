"""List features: the undecoded bytes of a poll's lists to their distinct rows.

Owns the comparison of lists as bytes and the decoding of each distinct one. Lists cost ten to thirty times
everything else in a message, and within a session they repeat byte for byte: only new bytes are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import msgspec
import numpy as np

from streams.errors import PoisonError, Reason
from streams.events.columns import Verdicts
from streams.events.event import I64, ListColumn
from streams.events.ids import Scalar, feature_id
from streams.ikjt.jagged import Jagged, offsets_of

_INTEGERS: Final = msgspec.json.Decoder(list[int])
_SCALARS: Final = msgspec.json.Decoder(list[Scalar])
_MISSING: Final = (b"", b"null")


def list_column(
    raws: Sequence[msgspec.Raw], which: I64, *, field: str, required: bool, positions: I64, verdicts: Verdicts
) -> ListColumn:
    """The column of one list feature; rows are empty where a message is not chosen, or its list missing or wrong."""
    seen: dict[bytes, int] = {}
    index = np.array([seen.setdefault(bytes(raw), len(seen)) for raw in raws], dtype=np.int32)
    rows: list[list[int]] = []
    failed: dict[int, PoisonError] = {}
    for row, raw in enumerate(seen):
        try:
            rows.append(_row(raw, required=required))
        except PoisonError as error:
            failed[row] = error
            rows.append([])
    for i in which[np.isin(index[which], list(failed))].tolist() if failed else ():
        why = failed[int(index[i])]
        verdicts.reject(int(positions[i]), PoisonError(why.reason, f"field {field}: {why.detail}"))
    if len(which) < len(raws):
        chosen = np.zeros(len(raws), dtype=np.bool_)
        chosen[which] = True
        index[~chosen] = len(rows)
        rows.append([])
    return ListColumn(rows=_jagged(rows), index=index)


def _row(raw: bytes, *, required: bool) -> list[int]:
    if raw not in _MISSING:
        return _decode(raw)
    if required:
        raise PoisonError(Reason.MISSING_FIELD, "the list is missing")
    return []


def _decode(raw: bytes) -> list[int]:
    try:
        ids = _INTEGERS.decode(raw)
        if not ids or (min(ids) > -(1 << 63) and max(ids) < 1 << 63):
            return ids
    except msgspec.ValidationError:
        # Strings, floats, or no list at all.
        pass
    try:
        return [feature_id(value) for value in _SCALARS.decode(raw)]
    except msgspec.ValidationError as error:
        raise PoisonError(Reason.WRONG_TYPE, f"not a list of ids: {error}") from None


def _jagged(rows: Sequence[Sequence[int]]) -> Jagged:
    offsets = offsets_of(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)))
    values = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(offsets[-1]))
    return Jagged(values, offsets)
