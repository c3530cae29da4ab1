"""The exception families of recd. A message says what to do next; shells add topic, partition and offset by `add_note`.

RecdError
├── RetryableError     the outside world failed; the same call may succeed later
├── PoisonError        this record can never be used; it goes to the dead-letter topic
├── WireError          bytes that are not a mini-batch this version can read
├── ConfigError        the user's configuration asks for something impossible
└── InvariantError     a broken promise of ours, or damaged state; stop and look
"""

from __future__ import annotations

from enum import StrEnum


class RecdError(Exception):
    """Base of every error that recd raises on purpose."""


class RetryableError(RecdError):
    """A broker, Redis or a disk did not answer; retrying is right."""


class Reason(StrEnum):
    """Why a record was put into the dead-letter topic."""

    BROKEN_JSON = "broken_json"
    BROKEN_MESSAGE = "broken_message"
    UNKNOWN_SCHEMA = "unknown_schema"
    NOT_AN_OBJECT = "not_an_object"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    TIME_OUT_OF_RANGE = "time_out_of_range"
    FUTURE_TIME = "future_time"
    UNKNOWN_KIND = "unknown_kind"
    NOT_FINITE = "not_finite"
    TOO_LARGE = "too_large"
    REFUSED_BY_BROKER = "refused_by_broker"


class PoisonError(RecdError):
    """One record that can never be used."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class WireError(RecdError):
    """Bytes that are not a mini-batch this version can read."""


class ConfigError(RecdError):
    """The configuration asks for something impossible; the message names the key and the fix."""


class InvariantError(RecdError):
    """A promise of ours is broken, or stored state is damaged."""
