"""Columns of JSON values to columns of numbers, and the verdicts on values that cannot be converted.

Owns the one pattern by which every column is converted: what is all integers (or floats) already becomes an
array at C speed; any other column is converted once per distinct value. The rule for one value is a plain
function, so both ways agree. Never knows which field a column came from.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.errors import PoisonError, Reason
from streams.events.event import I64
from streams.events.ids import Scalar

Rule = Callable[[Any], int | float]
"""One value to its number; raises PoisonError."""

INTEGERS: Final = frozenset({int})
NUMBERS: Final = frozenset({int, float})
NONE_AS_THEY_ARE: Final[frozenset[type]] = frozenset()


class Verdicts:
    """Why messages of a poll are rejected: position in the poll to the first reason found."""

    def __init__(self) -> None:
        self.found: dict[int, PoisonError] = {}

    def reject(self, position: int, error: PoisonError) -> None:
        """Reject a message, unless it already is."""
        self.found.setdefault(position, error)


def convert(
    values: Sequence[Scalar],
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
                verdicts.reject(position, PoisonError(failed[key].reason, f"field {field}: {failed[key].detail}"))
        results |= dict.fromkeys(failed, 0)
    return np.array([results[key] for key in keys], dtype=dtype)


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
