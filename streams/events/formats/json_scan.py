"""Compiled: the fields that a schema asks for, out of the JSON text of a whole poll at once.

Owns the walk through a message: which of its keys are asked for, at any depth, and what their values are. A message
that has anything unusual (`json_tokens`), a key with an escape, or an asked-for key twice is not understood here, as a
whole; so is one whose values are not of the shape that was asked for. msgspec decides about those.

Shape suffixes: N messages, S single values, L lists, K keys asked for, O objects asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xxhash

from streams.events.event import I64, U64
from streams.events.formats.json_rows import EMPTY, Room, row_of
from streams.events.formats.json_tokens import (
    FLOAT,
    LONG_FLOAT,
    STRING,
    WRONG,
    Text,
    past_member,
    past_single,
    past_space,
    past_value,
)
from streams.ikjt.kernels import uncounted, uncounted_inlined

IN_TEXT: Final = -1
"""In place of a list's row: it is no list of integers; its text is told instead."""
_TWICE: Final = -2
_PADDING: Final = 8
"""Zeros behind the text: a literal is looked at four bytes at a time, wherever it begins."""
_PIECE_BYTES: Final = 1 << 17
_SINGLE, _LIST, _OBJECT = 0, 1, 2
_OPEN, _CLOSE, _OPEN_LIST, _COMMA, _SMALL_N = 123, 125, 91, 44, 110
_KEY = np.dtype([("start", "i4"), ("length", "i4"), ("kind", "i4"), ("target", "i4"), ("seen", "i8")])


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """What is asked for, as the walk needs it."""

    text: Text
    """The keys, one after the other."""
    keys: npt.NDArray[np.void]
    """[K], sorted by their object. `target`: column of a single value or list, or number of an object."""
    bounds: I64
    """[O + 1], the first key of each object; the message itself is object 0."""
    hints: I64
    """[O], the key that is expected next: producers write keys in the same order mostly."""

    @classmethod
    def of(cls, tree: Mapping[str, Any], singles: Sequence[str], lists: Sequence[str]) -> Keys:
        """`tree`: keys by name, the leaves anything that is no mapping; columns are in the order of the names."""
        objects: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), tree)]
        rows: list[tuple[int, int, int, int, int]] = []
        bounds, text = [0], b""
        for path, inside in objects:
            for name, below in inside.items():
                key, full = name.encode(), (*path, name)
                if isinstance(below, Mapping):
                    kind, target = _OBJECT, len(objects)
                    objects.append((full, below))
                else:
                    dotted = ".".join(full)
                    kind = _SINGLE if dotted in singles else _LIST
                    target = (singles if kind == _SINGLE else lists).index(dotted)
                rows.append((len(text), len(key), kind, target, -1))
                text += key
            bounds.append(len(rows))
        starts = np.array(bounds, np.int64)
        return cls(np.frombuffer(text, np.uint8), np.array(rows, _KEY), starts, starts[:-1].copy())


@dataclass(frozen=True, slots=True, eq=False)
class Scanned:
    """What was found in N messages; of those that were not understood nothing that means anything."""

    text: Text
    content_hash: U64
    """[N], of the messages' bytes."""
    understood: npt.NDArray[np.bool_]
    """[N]."""
    kinds_SN: npt.NDArray[np.uint8]
    """What the values are: `json_tokens` has the kinds."""
    numbers_SN: I64
    """An integer, the bits of a float, or where the text of a string or LONG_FLOAT begins."""
    ends_SN: I64
    """Where that text ends."""
    rows_LN: npt.NDArray[np.int32]
    """The row of a list, `EMPTY` where it is missing or null too, or IN_TEXT."""
    spans_LN2: I64
    """Where a list's text begins and ends; both 0 where it is missing, both the same where it is null."""
    counts_S6: I64
    """How many values of each kind there are, if all messages were understood; of MISSING those that are null."""
    unusual_L: I64
    """How many lists are null or no list of integers, if all messages were understood; missing ones are not counted."""
    found_L: I64
    """How many lists are there at all."""


def scan(values: Sequence[bytes], sizes: I64, keys: Keys, num_singles: int, num_lists: int, room: Room) -> Scanned:
    """The messages of a poll, of these sizes in bytes; `room` has some for all of their lists."""
    num = len(values)
    ends = np.cumsum(sizes + 1) - 1
    found = Scanned(
        np.empty(int(ends[-1]) + 1 + _PADDING if num else _PADDING, np.uint8),
        np.zeros(num, np.uint64),
        np.zeros(num, np.bool_),
        np.zeros((num_singles, num), np.uint8),
        np.zeros((num_singles, num), np.int64),
        np.zeros((num_singles, num), np.int64),
        np.zeros((num_lists, num), np.int32),
        np.zeros((num_lists, num, 2), np.int64),
        np.zeros((num_singles, LONG_FLOAT + 1), np.int64),
        np.zeros(num_lists, np.int64),
        np.zeros(num_lists, np.int64),
    )
    found.text[-_PADDING:] = 0
    keys.keys["seen"] = -1
    out = (found.kinds_SN, found.numbers_SN, found.numbers_SN.view(np.float64), found.ends_SN, found.counts_S6)
    out_lists = (found.rows_LN, found.spans_LN2, found.unusual_L, found.found_L)
    asked = (keys.text, keys.keys, keys.bounds, keys.hints)
    marks = (found.understood, np.empty(len(keys.hints), np.int64))
    first = start = 0
    while first < num:
        # A piece is copied, hashed and walked through while it is in the caches.
        last = max(first + 1, int(np.searchsorted(ends, start + _PIECE_BYTES)))
        stop, some = int(ends[last - 1]), values[first:last]
        found.text[start:stop] = np.frombuffer(b"\0".join(some), np.uint8)
        found.text[stop] = 0
        found.content_hash[first:last] = np.fromiter(map(xxhash.xxh3_64_intdigest, some), np.uint64, last - first)
        _scan(found.text, (start, first), ends[first:last], asked, out, out_lists, room, marks)
        first, start = last, stop + 1
    return found


@uncounted
def _scan(
    text: Text, place: tuple[int, int], ends: I64, asked: Any, out: Any, out_lists: Any, room: Room, marks: Any
) -> None:
    """A piece of the text. `place`: where it begins, and which message that is; `marks`: `understood` and `above`."""
    start, first = place
    understood, above = marks
    for i in range(len(ends)):
        message = first + i
        understood[message] = _walk(text, start, message, asked, out, out_lists, room, above) == ends[i]
        start = ends[i] + 1


@uncounted_inlined
def _walk(text: Text, at: int, i: int, asked: Any, out: Any, out_lists: Any, room: Room, above: I64) -> int:
    """Where message `i` ends, white space behind it included. `above`: objects around the one we are in."""
    keys = asked[1]
    at = past_space(text, at)
    if text[at] != _OPEN:
        return WRONG
    inside, depth = 0, 0
    at = past_space(text, at + 1)
    opened = True
    while True:
        if not (opened and text[at] == _CLOSE):
            begin = at + 1
            at, key_end = past_member(text, at)
            key = _asked_for(text, begin, key_end - begin, inside, i, asked) if at >= 0 else _TWICE
            if key == _TWICE:
                return WRONG
            opened = key >= 0 and keys[key].kind == _OBJECT and text[at] == _OPEN
            if opened:
                above[depth] = inside
                inside, depth = keys[key].target, depth + 1
                at = past_space(text, at + 1)
                continue
            at = _value(text, at, i, key, keys, out, out_lists, room)
            if at < 0:
                return WRONG
        opened = False
        at, inside, depth = _past_closed(text, at, inside, depth, above)
        if depth < 0:
            return at


@uncounted_inlined
def _past_closed(text: Text, at: int, inside: int, depth: int, above: I64) -> tuple[int, int, int]:
    """Behind a value: past the objects that close here and the comma before the next key; depth -1 is the end."""
    at = past_space(text, at)
    while text[at] == _CLOSE:
        at = past_space(text, at + 1)
        if depth == 0:
            return at, 0, -1
        depth -= 1
        inside = above[depth]
    if text[at] != _COMMA:
        return WRONG, 0, -1
    return past_space(text, at + 1), inside, depth


@uncounted_inlined
def _asked_for(text: Text, start: int, length: int, inside: int, i: int, asked: Any) -> int:
    """The key of this name in an object; WRONG if nobody asked for it, _TWICE if message `i` had it before."""
    key = _find(text, start, length, inside, asked)
    if key >= 0:
        if asked[1][key].seen == i:
            return _TWICE
        asked[1][key].seen = i
    return key


@uncounted_inlined
def _value(text: Text, at: int, i: int, key: int, keys: Any, out: Any, out_lists: Any, room: Room) -> int:
    """Past a value that is no object asked for; it is noted if its key is."""
    if key < 0:
        return past_value(text, at)
    column = keys[key].target
    if keys[key].kind == _OBJECT:
        return WRONG
    if keys[key].kind == _LIST:
        return _list(text, at, i, column, out_lists, room)
    kinds, numbers, floats, ends, counts = out
    end, kind, integer, real = past_single(text, at)
    kinds[column, i], ends[column, i] = kind, end
    counts[column, kind] += 1
    if kind == FLOAT:
        floats[column, i] = real
    else:
        numbers[column, i] = at if kind in (STRING, LONG_FLOAT) else integer
    return end


@uncounted_inlined
def _list(text: Text, at: int, i: int, column: int, out_lists: Any, room: Room) -> int:
    rows, spans, unusual, found = out_lists
    end, row = WRONG, EMPTY
    if text[at] == _OPEN_LIST:
        end, row = row_of(text, at, room)
    elif text[at] == _SMALL_N:
        end, _, _, _ = past_single(text, at)
    if end < 0:
        end, row = past_value(text, at), IN_TEXT
    null = text[at] == _SMALL_N
    rows[column, i], spans[column, i, 0], spans[column, i, 1] = row, at, at if null else end
    unusual[column] += null or row == IN_TEXT
    found[column] += 1
    return end


@uncounted_inlined
def _find(text: Text, start: int, length: int, inside: int, asked: Any) -> int:
    """The key of this name in an object, or WRONG."""
    names, keys, bounds, hints = asked
    first, last, hint = bounds[inside], bounds[inside + 1], hints[inside]
    for turn in range(last - first):
        key = hint + turn
        if key >= last:
            key -= last - first
        if keys[key].length != length:
            continue
        name, k = keys[key].start, 0
        while k < length and text[start + k] == names[name + k]:
            k += 1
        if k == length:
            hints[inside] = key + 1 if key + 1 < last else first
            return int(key)
    return WRONG
