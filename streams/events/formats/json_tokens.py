"""Compiled: where the tokens of JSON text end, and which number one is.

Owns a part of JSON's grammar: whatever is accepted here is valid JSON, and means what msgspec reads in it; whatever is
not is left to msgspec. That is: surrogates, numbers of many digits or large exponents, integers beyond 18 digits,
"-0", nesting deeper than 60.

Text is bytes in which every message is followed by a zero byte. No token holds one, so no loop can leave its message.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import uncounted_inlined

Text = npt.NDArray[np.uint8]

WRONG: Final = -1
"""In place of where a token ends: it is none that is understood here."""
MISSING, INTEGER, FLOAT, STRING, TRUTH, LONG_FLOAT = 0, 1, 2, 3, 4, 5
"""What a value is. LONG_FLOAT: a finite number with a fraction or exponent that has to be read from its text."""

_SPACE, _TAB, _LINE, _RETURN = 32, 9, 10, 13
_QUOTE, _BACKSLASH, _COMMA, _COLON, _DOT, _MINUS, _PLUS = 34, 92, 44, 58, 46, 45, 43
_OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = 91, 93, 123, 125
_ZERO, _NINE, _SMALL_E, _LARGE_E = 48, 57, 101, 69
_DEEPEST: Final = 60
_INTEGER_DIGITS: Final = 18
_EXACT_DIGITS: Final = 15
"""A whole number of so many digits is a float, as are powers of ten up to 22: their quotient is rounded but once."""
_MOST_DIGITS: Final = 100
"""With an exponent of two digits such a number is far from the largest float."""
_POWERS: Final = 10.0 ** np.arange(_EXACT_DIGITS + 1)
_ESCAPES: Final = np.isin(np.arange(256), np.frombuffer(rb'"\/bfnrt', np.uint8))
_HEX: Final = np.isin(np.arange(256), np.frombuffer(b"0123456789abcdefABCDEF", np.uint8))


@uncounted_inlined
def past_space(text: Text, at: int) -> int:
    """The first place from `at` on that is no white space."""
    while text[at] == _SPACE or text[at] == _LINE or text[at] == _TAB or text[at] == _RETURN:
        at += 1
    return at


@uncounted_inlined
def past_key(text: Text, at: int) -> int:
    """Where the string whose first character is at `at` ends, behind its quote; one with an escape is WRONG."""
    while text[at] != _QUOTE:
        if text[at] < _SPACE or text[at] == _BACKSLASH:
            return WRONG
        at = at + 1 if text[at] < 0x80 else _past_wide(text, at)
        if at < 0:
            return WRONG
    return at + 1


@uncounted_inlined
def past_string(text: Text, at: int) -> int:
    """The same; escapes are fine."""
    while text[at] != _QUOTE:
        if text[at] == _BACKSLASH:
            at = _past_escape(text, at)
        elif text[at] < _SPACE:
            return WRONG
        else:
            at = at + 1 if text[at] < 0x80 else _past_wide(text, at)
        if at < 0:
            return WRONG
    return at + 1


@uncounted_inlined
def _past_escape(text: Text, at: int) -> int:
    if _ESCAPES[text[at + 1]]:
        return at + 2
    if text[at + 1] != 117:  # u
        return WRONG
    for k in range(2, 6):
        if not _HEX[text[at + k]]:
            return WRONG
    surrogate = (text[at + 2] == 68 or text[at + 2] == 100) and text[at + 3] >= 56  # d8 to df
    return WRONG if surrogate else at + 6


@uncounted_inlined
def _past_wide(text: Text, at: int) -> int:
    """Past a character of two to four bytes in UTF-8."""
    first = text[at]
    if first < 0xC2 or first > 0xF4:
        return WRONG
    low, high = 0x80, 0xBF
    if first == 0xE0:
        low = 0xA0
    elif first == 0xED:
        high = 0x9F
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F
    if text[at + 1] < low or text[at + 1] > high:
        return WRONG
    more = 1 if first < 0xE0 else (2 if first < 0xF0 else 3)
    for k in range(2, more + 1):
        if text[at + k] < 0x80 or text[at + k] > 0xBF:
            return WRONG
    return at + more + 1


@uncounted_inlined
def past_literal(text: Text, at: int) -> tuple[int, int, int]:
    """Where true, false or null ends, what it is, and its number."""
    if text[at] == 110 and text[at + 1] == 117 and text[at + 2] == 108 and text[at + 3] == 108:
        return at + 4, MISSING, 0
    if text[at] == 116 and text[at + 1] == 114 and text[at + 2] == 117 and text[at + 3] == 101:
        return at + 4, TRUTH, 1
    if text[at] == 102 and text[at + 1] == 97 and text[at + 2] == 108 and text[at + 3] == 115 and text[at + 4] == 101:
        return at + 5, TRUTH, 0
    return WRONG, MISSING, 0


@uncounted_inlined
def past_integer(text: Text, at: int) -> tuple[int, int]:
    """Where an integer of at most 18 digits ends, and it; it may go on with a fraction or exponent."""
    begin = at + 1 if text[at] == _MINUS else at
    end, number = begin, 0
    while text[end] >= _ZERO and text[end] <= _NINE and end - begin <= _INTEGER_DIGITS:
        number = number * 10 + int(text[end]) - _ZERO
        end += 1
    padded = text[begin] == _ZERO and (end > begin + 1 or begin > at)
    if end == begin or end - begin > _INTEGER_DIGITS or padded:
        return WRONG, 0
    return end, -number if begin > at else number


@uncounted_inlined
def past_number(text: Text, at: int) -> tuple[int, int, int, float]:
    """Where a number ends, what it is, and it as integer and float."""
    end, number = past_integer(text, at)
    if end >= 0 and text[end] != _DOT and text[end] != _SMALL_E and text[end] != _LARGE_E:
        return end, INTEGER, number, 0.0
    begin = at + 1 if text[at] == _MINUS else at
    end, digits, places, number = begin, 0, 0, 0
    while text[end] >= _ZERO and text[end] <= _NINE and digits <= _MOST_DIGITS:
        number = number * 10 + int(text[end]) - _ZERO if digits < _EXACT_DIGITS else number
        end, digits = end + 1, digits + 1
    if digits == 0 or (digits > 1 and text[begin] == _ZERO):
        return WRONG, MISSING, 0, 0.0
    if text[end] == _DOT:
        end += 1
        while text[end] >= _ZERO and text[end] <= _NINE and digits <= _MOST_DIGITS:
            number = number * 10 + int(text[end]) - _ZERO if digits < _EXACT_DIGITS else number
            end, digits, places = end + 1, digits + 1, places + 1
        if places == 0:
            return WRONG, MISSING, 0, 0.0
    whole = places == 0
    end, scaled = _past_exponent(text, end)
    if end < 0 or digits > _MOST_DIGITS or (whole and not scaled):
        return WRONG, MISSING, 0, 0.0
    if scaled or digits > _EXACT_DIGITS:
        return end, LONG_FLOAT, 0, 0.0
    value = np.float64(number) / _POWERS[places]
    return end, FLOAT, 0, -value if begin > at else value


@uncounted_inlined
def _past_exponent(text: Text, at: int) -> tuple[int, bool]:
    """Where an exponent of at most two digits ends, and whether there is one."""
    if text[at] != _SMALL_E and text[at] != _LARGE_E:
        return at, False
    at += 2 if text[at + 1] == _MINUS or text[at + 1] == _PLUS else 1
    begin = at
    while text[at] >= _ZERO and text[at] <= _NINE and at - begin <= 2:
        at += 1
    return (at if 1 <= at - begin <= 2 else WRONG), True


@uncounted_inlined
def past_single(text: Text, at: int) -> tuple[int, int, int, float]:
    """Where a string, number, true, false or null ends, what it is, and it as integer and float."""
    if text[at] == _QUOTE:
        return past_string(text, at + 1), STRING, 0, 0.0
    if text[at] == _MINUS or (text[at] >= _ZERO and text[at] <= _NINE):
        return past_number(text, at)
    end, kind, number = past_literal(text, at)
    return end, kind, number, 0.0


@uncounted_inlined
def past_member(text: Text, at: int) -> tuple[int, int]:
    """From the quote of a key: where its value begins, and where the key ends, its quote left out."""
    if text[at] != _QUOTE:
        return WRONG, 0
    end = past_key(text, at + 1)
    if end < 0:
        return WRONG, 0
    at = past_space(text, end)
    if text[at] != _COLON:
        return WRONG, 0
    return past_space(text, at + 1), end - 1


@uncounted_inlined
def past_value(text: Text, at: int) -> int:
    """Where any value ends that begins at `at`."""
    lists, depth = np.uint64(0), 0
    while True:
        opens_list = text[at] == _OPEN_LIST
        if opens_list or text[at] == _OPEN:
            depth += 1
            if depth > _DEEPEST:
                return WRONG
            lists = (lists << np.uint64(1)) | np.uint64(opens_list)
            at = past_space(text, at + 1)
            empty = text[at] == (_CLOSE_LIST if opens_list else _CLOSE)
        else:
            at, _, _, _ = past_single(text, at)
            empty = True
        if at < 0:
            return WRONG
        if empty:
            at, depth, lists = _past_closed(text, at, depth, lists)
            if at < 0 or depth == 0:
                return at
        if lists & np.uint64(1) == 0:
            at, _ = past_member(text, at)
            if at < 0:
                return WRONG


@uncounted_inlined
def _past_closed(text: Text, at: int, depth: int, lists: np.uint64) -> tuple[int, int, np.uint64]:
    """Behind a value: past whatever closes here and the comma before the next one; depth 0 is the end."""
    while depth > 0:
        at = past_space(text, at)
        if text[at] == _COMMA:
            return past_space(text, at + 1), depth, lists
        if text[at] != (_CLOSE_LIST if lists & np.uint64(1) else _CLOSE):
            return WRONG, depth, lists
        at, depth, lists = at + 1, depth - 1, lists >> np.uint64(1)
    return at, 0, lists
