"""From the values of JSON fields to the 64-bit numbers that the rest of recd works with. Stable for ever.

Owns five rules, each a function of the value alone:

feature id   an integer is itself (it must fit int64); true and false are 1 and 0; a float without a fraction is
             that integer; a string is `xxh3_64` of its UTF-8, as a signed integer. "42" is a string.
user id      the user's text, because that text is the key of the topic and a tombstone knows nothing else: text
             that spells an int64 canonically is that integer, any other text is hashed. So the user 42, the user
             "42" and the key b"42" are one user, as they already are to Kafka.
event id     one field that is an integer in 0..2^64-1 is itself; anything else is the unsigned hash of the texts
             of all its fields, joined so that ("a", "bc") and ("ab", "c") differ.
pair id      user and item mixed: what stands for an event id where an outcome names no impression.
text         what a scalar looks like when it has to be text: "42" for 42 and for 42.0, "true" for true.

Never reads a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash

from streams.errors import PoisonError, Reason

Scalar = int | float | str | bool | None
"""What a field may hold where one value is expected. None: the field is missing or null."""

NO_ID: Final = -(1 << 63)
"""Stands for a missing optional id. No id is equal to it."""
_LARGEST: Final = (1 << 63) - 1
SEPARATOR: Final = "\x1f"
"""Between the texts of an event id."""


def text_of(value: Scalar) -> str:
    """A scalar as text. The key of a record is the text of its user."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "null" if value is None else str(value)


def hash_id(text: str) -> int:
    """A string as a feature id or user id."""
    unsigned = xxhash.xxh3_64_intdigest(text.encode())
    signed = unsigned - (1 << 64) if unsigned > _LARGEST else unsigned
    return signed if signed != NO_ID else _LARGEST


def feature_id(value: Scalar) -> int:
    """A scalar as a feature id. Raises PoisonError where the rule knows none."""
    if isinstance(value, str):
        return hash_id(value)
    if value is None:
        raise PoisonError(Reason.MISSING_FIELD, "an id is missing")
    if isinstance(value, float) and not value.is_integer():
        raise PoisonError(Reason.WRONG_TYPE, f"{value!r} is no id: it is no integer")
    if not NO_ID < value <= _LARGEST:
        raise PoisonError(Reason.WRONG_TYPE, f"{value!r} is no id: it does not fit 64 bits; send it as a string")
    return int(value)


def user_id(value: Scalar) -> int:
    """A scalar as a user id. Raises PoisonError if it is missing or empty."""
    if value is None or value == "":
        raise PoisonError(Reason.MISSING_FIELD, "the user is missing")
    return _user_of_text(text_of(value))


def user_of_key(key: bytes | None) -> int:
    """The user whose text is a record's key."""
    if not key:
        raise PoisonError(Reason.MISSING_FIELD, "a tombstone needs the user as the record's key")
    try:
        return _user_of_text(key.decode())
    except UnicodeDecodeError:
        raise PoisonError(Reason.WRONG_TYPE, "the record's key is not UTF-8") from None


def _user_of_text(text: str) -> int:
    digits = text[1:] if text[0] == "-" else text
    if len(digits) <= 19 and digits.isascii() and digits.isdigit():
        number = int(text)
        if NO_ID < number <= _LARGEST and str(number) == text:
            return number
    return hash_id(text)


def event_id(parts: Sequence[Scalar]) -> int:
    """The fields that identify an event as one unsigned number. PoisonError if one is missing, or all are empty."""
    if any(part is None for part in parts):
        raise PoisonError(Reason.MISSING_FIELD, "a part of the event id is missing")
    if all(part == "" for part in parts):
        # Else all such events would be one, and the others its duplicates.
        raise PoisonError(Reason.MISSING_FIELD, "the event id is empty")
    first = parts[0]
    if len(parts) == 1 and type(first) is int and 0 <= first < 1 << 64:
        return first
    return xxhash.xxh3_64_intdigest(SEPARATOR.join([_escaped(text_of(part)) for part in parts]).encode())


def _escaped(text: str) -> str:
    # The separator cannot occur in what is joined, so no two lists of texts join to the same string.
    return text.replace("\\", "\\\\").replace(SEPARATOR, "\\s") if SEPARATOR in text or "\\" in text else text


def pair_id(user: npt.NDArray[np.int64], item: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """[N] users and items to one unsigned number each."""
    return mixed(mixed(user.astype(np.uint64)) ^ item.astype(np.uint64))


def mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """[N], each number as one whose every bit depends on every bit of it; SplitMix64, with its wrapping sums."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def tombstone_id(partition: int, offset: int) -> int:
    """The event id of a record that has no value."""
    return xxhash.xxh3_64_intdigest(f"tombstone{SEPARATOR}{partition}{SEPARATOR}{offset}".encode())
