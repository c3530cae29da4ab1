"""Columns of the messages of one poll: a field and a rule in, numbers out.

Owns the kinds of column that exist: ids, event ids, times, numbers and lists, each for all messages or for
some. Never knows what a column is for.

`which` are the chosen messages, by their place among the parsed ones; columns have one row for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from streams.errors import PoisonError
from streams.events.columns import INTEGERS, NONE_AS_THEY_ARE, NUMBERS, Rule, Verdicts, convert
from streams.events.event import I64, U64, ListColumn
from streams.events.fields import Fields
from streams.events.ids import NO_ID, SEPARATOR, Scalar, event_id
from streams.events.lists import list_column
from streams.events.schema import TimeUnit
from streams.events.times import time_ms, times_ms


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Messages:
    """The messages of a poll that are objects with fields of the right shape."""

    parsed: Sequence[msgspec.Struct]
    positions: I64
    """Where each stood in the poll."""
    content_hash: U64

    def __len__(self) -> int:
        return len(self.parsed)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reader:
    """Reads columns of `messages` and rejects those whose values do not fit."""

    fields: Fields
    messages: Messages
    verdicts: Verdicts

    def convert(
        self, name: str, rule: Rule, which: I64, dtype: npt.DTypeLike, as_they_are: frozenset[type] = NONE_AS_THEY_ARE
    ) -> npt.NDArray[Any]:
        """A field by any rule."""
        values = self._scalars(name, which)
        positions = self.messages.positions[which]
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
        values = self._scalars(name, which)
        types = set(map(type, values))
        if unit != "iso" and types in ({int}, {float}):
            try:
                return times_ms(np.array(values, dtype=np.int64 if types == {int} else np.float64), unit)
            except OverflowError:
                # Beyond int64: clipped by the rule.
                pass
        return self.convert(name, partial(time_ms, unit=unit), which, np.int64)

    def event_ids(self, names: Sequence[str], which: I64) -> U64:
        """One or several fields as event ids."""
        columns = [self._scalars(name, which) for name in names]
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
        """A list feature: one row a message, empty for those that are not chosen."""
        raws = self.fields.raw_lists(self.messages.parsed, name)
        return list_column(
            raws, which, field=name, required=required, positions=self.messages.positions, verdicts=self.verdicts
        )

    def reject_where(self, wrong: npt.NDArray[np.bool_], which: I64, error: PoisonError, name: str) -> None:
        """Reject the chosen messages whose flag is set."""
        for i in which[wrong].tolist():
            self._reject(i, error, name)

    def _scalars(self, name: str, which: I64) -> list[Scalar]:
        values = self.fields.scalars(self.messages.parsed, name)
        return values if len(which) == len(values) else [values[i] for i in which.tolist()]

    def _reject(self, i: int, error: PoisonError, name: str) -> None:
        told = PoisonError(error.reason, f"field {name}: {error.detail}")
        self.verdicts.reject(int(self.messages.positions[i]), told)
