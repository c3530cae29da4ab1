"""Columns of the events of one poll: a field and a rule in, numbers out.

Owns the kinds of column that exist: ids, event ids, times, numbers and lists, each for all events or for
some. Never knows what a column is for.

`which` are the chosen events, by their index among the parsed ones; columns have one row for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from streams.errors import PoisonError
from streams.events.columns import INTEGERS, NONE_AS_THEY_ARE, NUMBERS, Rule, Verdicts, convert
from streams.events.event import I64, U64, ListColumn
from streams.events.ids import NO_ID, SEPARATOR, Scalar, event_id
from streams.events.messages import Messages
from streams.events.roles import TimeUnit
from streams.events.times import time_ms, times_ms
from streams.events.values import Typed, Values, chosen, scalars_of


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reader:
    """Reads columns of `messages` and rejects those whose values do not fit."""

    messages: Messages
    verdicts: Verdicts

    def convert(
        self, name: str, rule: Rule, which: I64, dtype: npt.DTypeLike, as_they_are: frozenset[type] = NONE_AS_THEY_ARE
    ) -> npt.NDArray[Any]:
        """A field by any rule."""
        values = self._values(name, which)
        positions = self.messages.places[which]
        return convert(
            values, rule, dtype, as_they_are=as_they_are, field=name, positions=positions, verdicts=self.verdicts
        )

    def numbers(self, name: str, rule: Callable[[Scalar], float], which: I64) -> npt.NDArray[np.float64]:
        """A field as floats; `rule` must agree with `float` on numbers."""
        return self.convert(name, rule, which, np.float64, NUMBERS)

    def ids(self, name: str, rule: Callable[[Scalar], int], which: I64) -> I64:
        """A field as feature or user ids; `rule` must be the identity on integers, NO_ID apart."""
        ids = self.convert(name, rule, which, np.int64, INTEGERS)
        # The one integer that is no id: let the rule say so.
        return ids if not (ids == NO_ID).any() else self.convert(name, rule, which, np.int64)

    def times(self, name: str, unit: TimeUnit, which: I64) -> I64:
        """A field as event times in milliseconds."""
        values = self._values(name, which)
        numbers = _whole(values) if unit != "iso" else None
        if numbers is not None:
            return times_ms(numbers, unit)
        return self.convert(name, partial(time_ms, unit=unit), which, np.int64)

    def event_ids(self, names: Sequence[str], which: I64) -> U64:
        """One or several fields as event ids."""
        found = [self._values(name, which) for name in names]
        if len(found) == 1 and isinstance(found[0], Typed):
            numbers = _whole(found[0])
            if numbers is not None and numbers.dtype.kind != "f" and (not len(numbers) or numbers.min() >= 0):
                return numbers.astype(np.uint64)
        columns = [scalars_of(values) for values in found]
        integers = all(set(map(type, column)) <= INTEGERS for column in columns)
        if integers and len(names) > 1:
            texts = map(SEPARATOR.join, zip(*(map(str, column) for column in columns), strict=True))
            return np.fromiter(
                (xxhash.xxh3_64_intdigest(text.encode()) for text in texts), dtype=np.uint64, count=len(which)
            )
        if integers:
            try:
                return np.array(columns[0], dtype=np.uint64)
            except OverflowError:
                # Negative, or beyond 64 bits: hashed by the rule.
                pass
        ids = np.zeros(len(which), dtype=np.uint64)
        for i, parts in enumerate(zip(*columns, strict=True)):
            try:
                ids[i] = event_id(parts)
            except PoisonError as error:
                self._reject(which[i], error, ", ".join(names))
        return ids

    def lists(self, name: str, which: I64, *, required: bool) -> ListColumn:
        """A list feature: one row an event, empty for those that are not chosen."""
        return self.messages.lists(name, which, required=required, verdicts=self.verdicts)

    def reject_where(self, wrong: npt.NDArray[np.bool_], which: I64, error: PoisonError, name: str) -> None:
        """Reject the chosen events whose flag is set."""
        for i in which[wrong].tolist():
            self._reject(i, error, name)

    def _values(self, name: str, which: I64) -> Values:
        return chosen(self.messages.scalars(name), which)

    def _reject(self, i: int, error: PoisonError, name: str) -> None:
        told = PoisonError(error.reason, f"field {name}: {error.detail}")
        self.verdicts.reject(int(self.messages.places[i]), told)


def _whole(values: Values) -> npt.NDArray[Any] | None:
    """The values as numbers that times can be made of at once: none missing, all of one kind, within 64 bits."""
    if isinstance(values, Typed):
        wide = values.numbers.dtype == np.uint64
        if values.missing is not None or (wide and len(values) and int(values.numbers.max()) >= 1 << 63):
            return None
        return values.numbers.astype(np.int64) if values.numbers.dtype.kind != "f" else values.numbers
    types = set(map(type, values)) if isinstance(values, list) else set()
    if types not in ({int}, {float}):
        return None
    try:
        return np.array(values, dtype=np.int64 if types == {int} else np.float64)
    except OverflowError:
        # Beyond int64: clipped by the rule.
        return None
