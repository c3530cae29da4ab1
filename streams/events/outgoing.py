"""What a producer must know of a message before it can send it: its time, its user and its size.

Owns the least that ingest asks of a message; all else is the decoder's to judge. The key and the time are read
by the decoder's own rules, so that both agree on where a user lives and when an event was.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from streams.errors import PoisonError, Reason
from streams.events.decode import LAST_MS, MAX_VALUE_BYTES
from streams.events.diagnosis import diagnose
from streams.events.fields import Fields
from streams.events.ids import Scalar, text_of, user_id
from streams.events.roles import Roles
from streams.events.times import time_ms


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message that can be sent."""

    event_time_ms: int
    key: bytes
    """The user's text."""
    value: bytes


class Addresser:
    """Reads time and user of JSON messages."""

    def __init__(self, roles: Roles, *, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        self._roles = roles
        self._fields = Fields([roles.time, roles.user])
        self._max_value_bytes = max_value_bytes

    def address(self, value: bytes, now_ms: int) -> Outgoing:
        """The message with its key and time. Raises PoisonError if it can never be an event.

        `now_ms`: when it is appended; event times too far after it are refused.
        """
        if len(value) > self._max_value_bytes:
            raise PoisonError(Reason.TOO_LARGE, f"{len(value)} bytes of at most {self._max_value_bytes}")
        try:
            message = self._fields.parse([value])
        except (msgspec.DecodeError, RecursionError) as error:
            raise diagnose(value, error) from None
        time = self._time(self._fields.scalars(message, self._roles.time)[0], now_ms)
        user = self._fields.scalars(message, self._roles.user)[0]
        try:
            user_id(user)
        except PoisonError as error:
            raise PoisonError(error.reason, f"field {self._roles.user}: {error.detail}") from None
        return Outgoing(time, text_of(user).encode(), value)

    def _time(self, value: Scalar, now_ms: int) -> int:
        roles = self._roles
        try:
            time = time_ms(value, roles.time_unit)
        except PoisonError as error:
            raise PoisonError(error.reason, f"field {roles.time}: {error.detail}") from None
        told = f"field {roles.time}: {value!r} read as {roles.time_unit} is {time} ms since 1970"
        if not roles.earliest_ms <= time <= LAST_MS:
            raise PoisonError(Reason.TIME_OUT_OF_RANGE, f"{told}; is {roles.section}.time_unit right?")
        if time > now_ms + roles.max_future_ms:
            raise PoisonError(Reason.FUTURE_TIME, f"{told}: later than now by more than event.max_future_ms")
        return time
