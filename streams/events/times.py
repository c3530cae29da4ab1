"""Event times of any declared unit to integer milliseconds since 1970 UTC.

Owns the conversion: integers and fractions are rounded down to the millisecond (a fraction first to the
microsecond, since 1700000000.123 has no exact float); a string without a zone means UTC, whatever the
machine's own zone is. Never judges whether a time is plausible.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.errors import PoisonError, Reason
from streams.events.event import I64
from streams.events.ids import Scalar
from streams.events.roles import TimeUnit

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_FAR_MS: Final = 1 << 60
"""Floats beyond this, about 36 million years, are clipped to it: any check of a range then refuses them."""
_LARGEST: Final = (1 << 63) - 1
_FAR_FLOAT: Final = 9.2e18
"""A float that still fits int64."""
_PER_UNIT: Final[dict[TimeUnit, tuple[int, int]]] = {
    "s": (1000, 1),
    "ms": (1, 1),
    "us": (1, 1000),
    "ns": (1, 1_000_000),
}
"""Milliseconds per unit, as a fraction."""


def time_ms(value: Scalar, unit: TimeUnit) -> int:
    """One time. Raises PoisonError if the value is missing or cannot be a time of this unit."""
    if value is None or value == "":
        raise PoisonError(Reason.MISSING_FIELD, "the event time is missing")
    if isinstance(value, bool):
        raise PoisonError(Reason.WRONG_TYPE, f"{value!r} is no event time")
    if unit == "iso":
        return _iso_ms(value)
    number = _number(value) if isinstance(value, str) else value
    if isinstance(number, float):
        if not math.isfinite(number):
            raise PoisonError(Reason.NOT_FINITE, f"the event time is {value!r}")
        return int(_ms_of_floats(np.array([number]), unit)[0])
    up, down = _PER_UNIT[unit]
    bound = _LARGEST // up
    return max(-bound, min(bound, number)) * up // down


def times_ms(values: npt.NDArray[Any], unit: TimeUnit) -> I64:
    """A whole column of int64, or of finite float64, by the same rule."""
    if values.dtype.kind == "f":
        return _ms_of_floats(values, unit)
    up, down = _PER_UNIT[unit]
    bound = _LARGEST // up
    scaled: I64 = np.clip(values, -bound, bound) * up // down
    return scaled


def _ms_of_floats(values: npt.NDArray[np.float64], unit: TimeUnit) -> I64:
    up, down = _PER_UNIT[unit]
    if down > 1:
        # Below the millisecond a fraction says nothing.
        return times_ms(np.floor(np.clip(values, -_FAR_FLOAT, _FAR_FLOAT)).astype(np.int64), unit)
    us = np.rint(np.clip(values, -_FAR_FLOAT, _FAR_FLOAT) * (up * 1000))
    clipped: I64 = np.clip(us // 1000, -_FAR_MS, _FAR_MS).astype(np.int64)
    return clipped


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise PoisonError(Reason.WRONG_TYPE, f"{text[:40]!r} is no number; is its time_unit iso?") from None


def _iso_ms(value: float | str) -> int:
    if not isinstance(value, str):
        raise PoisonError(Reason.WRONG_TYPE, f"{value!r} is a number but its time_unit is iso; set s, ms, us or ns")
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise PoisonError(Reason.WRONG_TYPE, f"{value[:40]!r} is no ISO 8601 time") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MS
