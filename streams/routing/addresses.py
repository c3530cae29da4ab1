"""Records of any topic to the partitions and keys that their users give them.

Owns what is read of a record before it is routed: its user, which must be there, and its event time, which need not.
Everything else is the sessionizer's to judge, where the whole schema is known. Reads no clock and knows no broker.

A record without a value is a tombstone: its key is its user. A message of many events goes where their users belong,
in slices (`splitting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from streams.errors import PoisonError
from streams.events.columns import Verdicts
from streams.events.event import I64
from streams.events.ids import Scalar, text_of, user_id, user_of_key
from streams.events.messages import Format, Messages
from streams.events.reader import Reader
from streams.events.roles import Roles
from streams.events.schema import EventSchema, Label
from streams.events.values import Coded, Values, scalars_of
from streams.routing.alignment import NO_TIME
from streams.routing.murmur2 import partitions_of
from streams.routing.splitting import split

WHOLE: Final = -1
"""In place of a row: the whole record."""


class Piece(NamedTuple):
    """What is written of a record to one partition."""

    partition: int
    key: bytes
    """The user's text; of many users, the first one's."""
    value: bytes | None


class Refusal(NamedTuple):
    """Why a record, or one event of it, cannot be routed."""

    row: int
    """Of the event in its message; `WHOLE` for all of it."""
    error: PoisonError


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressed:
    """What becomes of N records: each has pieces, refusals, or both."""

    pieces: list[Sequence[Piece]]
    """[N]."""
    refusals: dict[int, list[Refusal]]
    """By record."""
    times_ms: I64
    """[N], latest event time in each; `NO_TIME` where it says none that can be."""


def routing_schema(roles: Roles) -> EventSchema:
    """Nothing but user and time: all that a format has to read."""
    plain = replace(
        roles, event_id=(roles.user,), item=roles.user, kind=None, kinds={}, default_kind="labelled", impression=None
    )
    return EventSchema(roles=plain, labels=(Label(name="user", field=roles.user),))


class Addresses:
    """Addresses the records of one topic for a topic of `num_partitions`."""

    def __init__(self, roles: Roles, message_format: Format, num_partitions: int) -> None:
        """`message_format`: of `routing_schema(roles)`."""
        self._roles = roles
        self._format = message_format
        self._num_partitions = num_partitions

    def address(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], latest_ms: int) -> Addressed:
        """What becomes of records with these keys and values.

        `latest_ms`: later event times are none. RetryableError if a schema is not to be had at the moment.
        """
        verdicts, stride = Verdicts(), self._format.stride
        filled = [i for i, value in enumerate(values) if value is not None]
        messages = self._format.parse(filled, [value for value in values if value is not None], verdicts)
        users, which = self._users(messages, verdicts)
        pieces: list[Sequence[Piece]] = [()] * len(values)
        good = ~np.isin(messages.places, list(verdicts.found)) if verdicts.found else np.ones(len(messages), np.bool_)
        where = partitions_of(users, self._num_partitions)[which] if users else np.empty(0, np.int64)
        places, which, where = messages.places[good], which[good], where[good]
        if stride == 1:
            for i, user, partition in zip(places.tolist(), which.tolist(), where.tolist(), strict=True):
                pieces[i] = (Piece(partition, users[user], values[i]),)
        else:
            self._split(places, [users[user] for user in which.tolist()], where, values, pieces)
        refusals: dict[int, list[Refusal]] = {}
        events = set(messages.places.tolist()) if verdicts.found and stride > 1 else frozenset[int]()
        for place, error in sorted(verdicts.found.items()):
            row = place % stride if place in events else WHOLE
            refusals.setdefault(place // stride, []).append(Refusal(row, error))
        if len(filled) < len(values):
            self._tombstones(keys, values, pieces, refusals)
        return Addressed(pieces=pieces, refusals=refusals, times_ms=self._times(messages, len(values), latest_ms))

    def _users(self, messages: Messages, verdicts: Verdicts) -> tuple[list[bytes], I64]:
        """Distinct keys, and which one each event has; events without a user are rejected."""
        field = self._roles.user
        distinct, which = _distinct(messages.scalars(field))
        missing = [code for code, value in enumerate(distinct) if value is None or value == ""]
        if missing:
            gone = np.flatnonzero(np.isin(which, missing))
            # The rule itself says what is wrong, as it does to the sessionizer.
            Reader(messages=messages, verdicts=verdicts).ids(field, user_id, gone)
        return [text_of(value).encode() for value in distinct], which

    def _split(
        self,
        places: I64,
        keys: list[bytes],
        where: I64,
        values: Sequence[bytes | None],
        pieces: list[Sequence[Piece]],
    ) -> None:
        """Slices of each message that has routable events. Places are ascending."""
        stride = self._format.stride
        origin, rows = places // stride, places % stride
        starts = np.flatnonzero(np.diff(origin, prepend=-1)).tolist()
        for start, stop in pairwise([*starts, len(origin)]):
            message = int(origin[start])
            value = values[message]
            assert value is not None, "what has events has a value"
            key_of = dict(zip(rows[start:stop].tolist(), keys[start:stop], strict=True))
            slices = split(value, rows[start:stop], where[start:stop])
            # A message that stays whole begins at its first row, whichever user that has.
            pieces[message] = [Piece(each.partition, key_of[each.first], each.value) for each in slices]

    def _tombstones(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        pieces: list[Sequence[Piece]],
        refusals: dict[int, list[Refusal]],
    ) -> None:
        for i, (key, value) in enumerate(zip(keys, values, strict=True)):
            if value is not None:
                continue
            try:
                user_of_key(key)
            except PoisonError as error:
                refusals[i] = [Refusal(WHOLE, error)]
            else:
                assert key is not None, "what has a user is there"
                pieces[i] = (Piece(int(partitions_of([key], self._num_partitions)[0]), key, None),)

    def _times(self, messages: Messages, num: int, latest_ms: int) -> I64:
        """[num], latest time in each record. A wrong one is refused later, by the sessionizer, and orders nothing."""
        wrong = Verdicts()
        reader = Reader(messages=messages, verdicts=wrong)
        times = reader.times(self._roles.time, self._roles.time_unit, np.arange(len(messages)))
        known = (times >= self._roles.earliest_ms) & (times <= latest_ms)
        if wrong.found:
            known &= ~np.isin(messages.places, list(wrong.found))
        found = np.full(num, NO_TIME)
        np.maximum.at(found, messages.places[known] // self._format.stride, times[known])
        return found


def _distinct(values: Values) -> tuple[list[Scalar], I64]:
    """Distinct values, and which one each event has."""
    if isinstance(values, Coded):
        return values.distinct, values.index
    scalars = scalars_of(values)
    # 1, 1.0 and True are one key to a dict, but not one text.
    pairs: list[tuple[type, Scalar]] = list(zip(map(type, scalars), scalars, strict=True))
    codes = {pair: code for code, pair in enumerate(dict.fromkeys(pairs))}
    index = np.fromiter(map(codes.__getitem__, pairs), np.int64, len(pairs))
    return [value for _, value in codes], index
