"""The values of one field of many messages, in the form in which their format has them.

Owns three forms: a list of scalars (one Python object a message), numbers in an array, and codes of the distinct
values. Rules (`columns`) give the same for all three. Never judges a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from streams.events.event import I64
from streams.events.ids import Scalar

Numbers = npt.NDArray[np.integer] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """Integers of any width, or finite floats of 64 bits."""

    numbers: Numbers
    """[N], anything where missing."""
    missing: npt.NDArray[np.bool_] | None = None
    """[N]; None: nowhere."""

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, which: I64) -> Typed:
        """The chosen ones."""
        return Typed(self.numbers[which], None if self.missing is None else self.missing[which])

    def scalars(self) -> list[Scalar]:
        """[N], as Python's own."""
        found: list[Scalar] = self.numbers.tolist()
        if self.missing is not None:
            for i in np.flatnonzero(self.missing).tolist():
                found[i] = None
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Distinct values, some of which may be used by nobody, and which one each message has."""

    distinct: list[Scalar]
    index: I64
    """[N]."""

    def __len__(self) -> int:
        return len(self.index)

    def take(self, which: I64) -> Coded:
        """The chosen ones."""
        return Coded(self.distinct, self.index[which])

    def scalars(self) -> list[Scalar]:
        """[N], as Python's own."""
        return [self.distinct[i] for i in self.index.tolist()]


Values = list[Scalar] | Typed | Coded


def chosen(values: Values, which: I64) -> Values:
    """The values of the chosen messages."""
    if len(which) == len(values):
        return values
    return [values[i] for i in which.tolist()] if isinstance(values, list) else values.take(which)


def scalars_of(values: Values) -> list[Scalar]:
    """One Python object a message; None where the value is missing."""
    return values if isinstance(values, list) else values.scalars()


def with_some(values: Values, where: I64, others: list[Scalar]) -> Values:
    """The values, but the others at these places."""
    if len(others) == len(values):
        return others
    if isinstance(values, Coded):
        index = values.index.copy()
        index[where] = len(values.distinct) + np.arange(len(where))
        return Coded([*values.distinct, *others], index)
    if isinstance(values, Typed) and set(map(type, others)) == {float if values.numbers.dtype.kind == "f" else int}:
        try:
            numbers = values.numbers.copy()
            numbers[where] = np.array(others, numbers.dtype)
        except OverflowError:
            # One of them takes more than 64 bits.
            pass
        else:
            missing = None if values.missing is None else values.missing.copy()
            if missing is not None:
                missing[where] = False
            return Typed(numbers, missing if missing is not None and missing.any() else None)
    patched = list(scalars_of(values))
    for i, other in zip(where.tolist(), others, strict=True):
        patched[i] = other
    return patched


def joined(parts: Sequence[Values]) -> Values:
    """One after the other. At least one."""
    if len(parts) == 1:
        return parts[0]
    typed = [part for part in parts if isinstance(part, Typed)]
    # Signed and unsigned integers, or integers and floats, have no number type in common that keeps them all.
    if len(typed) == len(parts) and len({part.numbers.dtype.kind for part in typed}) == 1:
        return Typed(np.concatenate([part.numbers for part in typed]), _missing(typed))
    coded = [part for part in parts if isinstance(part, Coded)]
    if len(coded) == len(parts):
        starts = np.cumsum([0, *(len(part.distinct) for part in coded)])
        index = np.concatenate([part.index + start for part, start in zip(coded, starts, strict=False)])
        return Coded(list(chain.from_iterable(part.distinct for part in coded)), index)
    return list(chain.from_iterable(map(scalars_of, parts)))


def _missing(parts: Sequence[Typed]) -> npt.NDArray[np.bool_] | None:
    if all(part.missing is None for part in parts):
        return None
    return np.concatenate([np.zeros(len(p), np.bool_) if p.missing is None else p.missing for p in parts])
