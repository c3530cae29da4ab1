"""What is wrong with a message that could not be decoded.

Owns the order of the questions: is it JSON at all, is it an object, are the fields of the right shape. Runs
only for messages that are rejected, so it may be slow.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec

from streams.errors import PoisonError, Reason


def diagnose(value: bytes, error: Exception) -> PoisonError:
    """The verdict on `value`, which failed with `error` when it was decoded by the schema's own type."""
    try:
        found = msgspec.json.decode(value)
    except msgspec.ValidationError as range_error:
        return PoisonError(Reason.NOT_FINITE, _cut(str(range_error)))
    except (msgspec.DecodeError, RecursionError) as broken:
        return _broken(value, broken)
    if not isinstance(found, dict):
        return PoisonError(Reason.NOT_AN_OBJECT, f"the message is {_kind(found)}, not an object")
    return PoisonError(Reason.WRONG_TYPE, _cut(str(error)))


def _broken(value: bytes, error: Exception) -> PoisonError:
    found: list[str] = []
    constant: Callable[[str], None] = found.append
    try:
        # Python's own writer puts NaN and Infinity into what is JSON otherwise; its reader tells us.
        json.loads(value, parse_constant=constant)
    except (ValueError, RecursionError):
        return PoisonError(Reason.BROKEN_JSON, _cut(str(error) or type(error).__name__))
    if found:
        return PoisonError(Reason.NOT_FINITE, f"the message holds {found[0]}, which is no JSON number")
    return PoisonError(Reason.BROKEN_JSON, _cut(str(error)))


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
