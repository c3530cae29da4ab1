"""What a scan has found, as the values that rules take.

Owns the choice of the form that fits a column: numbers stay an array, a text is decoded once per distinct value.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from streams.events.event import I64
from streams.events.formats.json_scan import Scanned
from streams.events.formats.json_tokens import FLOAT, INTEGER, LONG_FLOAT, MISSING, STRING, Text
from streams.events.ids import Scalar
from streams.events.values import Coded, Typed, Values
from streams.ikjt.kernels import compiled

_STRING: Final = msgspec.json.Decoder(str)
_FLOAT: Final = msgspec.json.Decoder(float)


def column_of(scanned: Scanned, column: int, which: I64 | None) -> Values:
    """A single value of the chosen messages; None: of all, each of which was understood."""
    kinds, numbers, ends = scanned.kinds_SN[column], scanned.numbers_SN[column], scanned.ends_SN[column]
    if which is None:
        counts = scanned.counts_S6[column].tolist()
    else:
        kinds, numbers, ends = kinds[which], numbers[which], ends[which]
        counts = np.bincount(kinds, minlength=LONG_FLOAT + 1).tolist()
    if counts[LONG_FLOAT]:
        kinds, numbers = _read_floats(scanned.text, kinds, numbers, ends)
        counts[FLOAT], counts[LONG_FLOAT] = counts[FLOAT] + counts[LONG_FLOAT], 0
    missing = kinds == MISSING if sum(counts[MISSING + 1 :]) < len(kinds) else None
    found = [kind for kind in range(MISSING + 1, LONG_FLOAT) if counts[kind]]
    if found in ([], [INTEGER]):
        return Typed(numbers, missing)
    if found == [FLOAT]:
        return Typed(numbers.view(np.float64), missing)
    if found == [STRING]:
        return _texts(scanned.text, numbers, ends, missing)
    return _mixed(scanned.text, kinds, numbers, ends)


def _read_floats(text: Text, kinds: npt.NDArray[np.uint8], numbers: I64, ends: I64) -> tuple[Any, I64]:
    """Long floats as floats."""
    kinds, numbers = kinds.copy(), numbers.copy()
    where = np.flatnonzero(kinds == LONG_FLOAT)
    raw = (text[start:end].tobytes() for start, end in zip(numbers[where].tolist(), ends[where].tolist(), strict=True))
    numbers[where] = np.fromiter(map(_FLOAT.decode, raw), np.float64, len(where)).view(np.int64)
    kinds[where] = FLOAT
    return kinds, numbers


def _texts(text: Text, starts: I64, ends: I64, missing: npt.NDArray[np.bool_] | None) -> Coded:
    if missing is not None:
        # A text of no bytes: no string is that short, because its quotes are part of it.
        starts, ends = np.where(missing, 0, starts), np.where(missing, 0, ends)
    first, index = _distinct(text, starts, ends)
    spans = zip(starts[first].tolist(), ends[first].tolist(), strict=True)
    values: list[Scalar] = [_STRING.decode(text[start:end].tobytes()) if end else None for start, end in spans]
    return Coded(values, index)


def _mixed(text: Text, kinds: npt.NDArray[np.uint8], numbers: I64, ends: I64) -> list[Scalar]:
    """As Python's own."""
    values: list[Any] = numbers.tolist()
    floats = numbers.view(np.float64)
    for i in np.flatnonzero(kinds != INTEGER).tolist():
        match int(kinds[i]):
            case 0:  # MISSING
                values[i] = None
            case 2:  # FLOAT
                values[i] = float(floats[i])
            case 3:  # STRING
                values[i] = _STRING.decode(text[values[i] : ends[i]].tobytes())
            case _:  # TRUTH
                values[i] = bool(values[i])
    return values


@compiled
def _distinct(text: Text, starts: I64, ends: I64) -> tuple[I64, I64]:
    """First place of each distinct text [U], and the number of each text [N]."""
    num, slots = len(starts), 1
    while slots < 2 * num:
        slots *= 2
    table = np.full(slots, -1, np.int64)
    first, index = np.empty(num, np.int64), np.empty(num, np.int64)
    found = 0
    for i in range(num):
        length = ends[i] - starts[i]
        mixed = np.uint64(0xCBF29CE484222325)
        for k in range(length):
            mixed = (mixed ^ np.uint64(text[starts[i] + k])) * np.uint64(0x100000001B3)
        slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(slots - 1))
        while True:
            kind = table[slot]
            if kind < 0:
                table[slot], first[found], index[i] = found, i, found
                found += 1
                break
            other = starts[first[kind]]
            k = 0 if length == ends[first[kind]] - other else -1
            while 0 <= k < length and text[starts[i] + k] == text[other + k]:
                k += 1
            if k == length:
                index[i] = kind
                break
            slot = (slot + 1) & (slots - 1)
    return first[:found].copy(), index
