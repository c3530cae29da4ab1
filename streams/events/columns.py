"""Columns of values to columns of numbers, and the verdicts on values that cannot be converted.

Owns the one pattern by which every column is converted: what is all integers (or floats) already becomes an
array at C speed; any other column is converted once per distinct value. The rule for one value is a plain
function, so both ways agree. Never knows which field a column came from.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.errors import PoisonError, Reason
from streams.events.event import I64
from streams.events.ids import Scalar
from streams.events.values import Coded, Typed, Values, scalars_of

Rule = Callable[[Any], int | float]
"""One value to its number; raises PoisonError."""

INTEGERS: Final = frozenset({int})
NUMBERS: Final = frozenset({int, float})
NONE_AS_THEY_ARE: Final[frozenset[type]] = frozenset()


class Verdicts:
    """Why events of a poll are rejected: place in the poll (`messages`) to the first reason found."""

    def __init__(self) -> None:
        self.found: dict[int, PoisonError] = {}

    def reject(self, position: int, error: PoisonError) -> None:
        """Reject an event, unless it already is."""
        self.found.setdefault(position, error)


def convert(
    values: Values,
    rule: Rule,
    dtype: npt.DTypeLike,
    *,
    as_they_are: frozenset[type] = NONE_AS_THEY_ARE,
    field: str,
    positions: I64,
    verdicts: Verdicts,
) -> npt.NDArray[Any]:
    """A column by `rule`, 0 where it fails; the failures are rejected under their `positions`.

    `as_they_are`: types for which numpy's own conversion is the rule.
    """
    told = _Telling(rule, field, positions, verdicts)
    if isinstance(values, Coded):
        return told.coded(values, dtype)
    if isinstance(values, Typed):
        if _fits(values, dtype, as_they_are):
            return told.typed(values, dtype)
        values = scalars_of(values)
    types = set(map(type, values))
    if types <= as_they_are:
        try:
            return np.array(values, dtype=dtype)
        except OverflowError:
            # One of them does not fit: the rule says which.
            pass
    # 1, 1.0 and True are one key to a dict but not to a rule.
    keys: Sequence[Hashable] = values if types == {str} else list(zip(map(type, values), values, strict=True))
    results = {key: _attempt(rule, value) for key, value in dict(zip(keys, values, strict=True)).items()}
    failed = {key: result for key, result in results.items() if isinstance(result, PoisonError)}
    if failed:
        for position, key in zip(positions.tolist(), keys, strict=True):
            if key in failed:
                told.reject(position, failed[key])
        results |= dict.fromkeys(failed, 0)
    return np.array([results[key] for key in keys], dtype=dtype)


@dataclass(frozen=True, slots=True)
class _Telling:
    """A rule, and who is told of its failures."""

    rule: Rule
    field: str
    positions: I64
    verdicts: Verdicts

    def reject(self, position: int, error: PoisonError) -> None:
        self.verdicts.reject(position, PoisonError(error.reason, f"field {self.field}: {error.detail}"))

    def typed(self, values: Typed, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Numbers as they are, and the rule's answer where they are missing."""
        if values.missing is None or not values.missing.any():
            return values.numbers.astype(dtype)
        result = _attempt(self.rule, None)
        if isinstance(result, PoisonError):
            for position in self.positions[values.missing].tolist():
                self.reject(position, result)
            result = 0
        found = values.numbers.astype(dtype)
        found[values.missing] = result
        return found

    def coded(self, values: Coded, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Each distinct value by the rule, once."""
        used = np.zeros(len(values.distinct), np.bool_)
        used[values.index] = True
        results = [_attempt(self.rule, v) if u else 0 for v, u in zip(values.distinct, used.tolist(), strict=True)]
        failed = {i: result for i, result in enumerate(results) if isinstance(result, PoisonError)}
        if failed:
            where = np.flatnonzero(np.isin(values.index, list(failed)))
            for position, code in zip(self.positions[where].tolist(), values.index[where].tolist(), strict=True):
                self.reject(position, failed[code])
        return np.array([0 if i in failed else r for i, r in enumerate(results)], dtype=dtype)[values.index]


def _fits(values: Typed, dtype: npt.DTypeLike, as_they_are: frozenset[type]) -> bool:
    """Whether numpy's own conversion of these numbers is the rule."""
    if values.numbers.dtype.kind == "f":
        return float in as_they_are
    if int not in as_they_are:
        return False
    wide = values.numbers.dtype == np.uint64 and np.dtype(dtype) == np.int64
    return not wide or not len(values) or int(values.numbers.max()) < 1 << 63


def _attempt(rule: Rule, value: Scalar) -> int | float | PoisonError:
    try:
        return rule(value)
    except PoisonError as error:
        return error


def number(value: Scalar) -> float:
    """A float: any JSON number, true and false as 1 and 0, or a string that spells a number."""
    if value is None:
        raise PoisonError(Reason.MISSING_FIELD, "the value is missing")
    try:
        return float(value)
    except ValueError:
        raise PoisonError(Reason.WRONG_TYPE, f"{str(value)[:40]!r} is no number") from None
    except OverflowError:
        raise PoisonError(Reason.NOT_FINITE, "the number is too large") from None
