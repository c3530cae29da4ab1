"""Finds partial duplicates: rows that are windows of one growing, shifting buffer.

Owns the way from samples, or from their exact form, to a PartialIkjt: one buffer a session, one window a distinct
row. A history from which the oldest id drops and to which one new id is appended costs one value then, where the
exact form stores the whole row again.

As plain Python, over the samples in order:

    if the row was seen before, in any session:           nothing new
    elif the row is a window of its session's buffer:     nothing new, the first such window is it
    else: the longest end of the buffer that begins the row stays; the rest of the row is appended

So the result never holds more values than the exact form. To stay linear, a row is looked for in the last
`max(REACH, 4 * its length)` values of its buffer only: histories never look back further.

Features of a group share their windows: they must have equal lengths in every row, else the group has no partial
form and the exact one is what is left. Rows, their numbers and the inverse are those of the exact form.

Shapes: B samples, U distinct rows, P buffers, V values, K dense columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.dedup import ALL_BITS, deduplicate, number_rows
from streams.ikjt.ikjt import F32, Ikjt
from streams.ikjt.invariants import check_sessions, first_samples
from streams.ikjt.jagged import Jagged
from streams.ikjt.kernels import compiled
from streams.ikjt.windows import Group, PartialIkjt

I64 = npt.NDArray[np.int64]
Words = npt.NDArray[Any]

REACH: Final = 4096
"""Values at the end of a buffer in which a row is always looked for."""
_LARGEST: Final = 2**31 - 1
"""Windows are int32, as the format fixes it; a larger group stays exact."""


def deduplicate_windows(
    group: str,
    features: Mapping[str, Jagged],
    session_id: npt.NDArray[Any],
    dense: F32 | None = None,
    dense_names: Sequence[str] = (),
) -> Group:
    """The partial form of B samples; the exact form where the features do not shift together."""
    return as_windows(deduplicate(group, features, dense, dense_names), session_id)


def as_windows(ikjt: Ikjt, session_id: npt.NDArray[Any]) -> Group:
    """The partial form of an exact group; the group itself where its features do not shift together.

    `session_id` is [B]. Samples must come in the order in which their lists grow.
    """
    layout = _layout(ikjt, session_id)
    if layout is None:
        return ikjt
    source, offsets, start = layout
    buffers = {
        key: Jagged(rows.values[source], offsets, None if rows.weights is None else rows.weights[source])
        for key, rows in ikjt.features.items()
    }
    length = next(iter(ikjt.features.values())).lengths.astype(np.int32)
    return PartialIkjt(ikjt.group, buffers, start.astype(np.int32), length, ikjt.inverse, ikjt.dense, ikjt.dense_names)


def window_values(rows: Group | Jagged, session_id: npt.NDArray[Any]) -> int:
    """Values that the partial form of these rows holds; those of the exact form where there is no partial one."""
    ikjt = deduplicate("rows", {"rows": rows}) if isinstance(rows, Jagged) else rows.to_exact()
    layout = _layout(ikjt, session_id)
    return ikjt.num_values if layout is None else len(layout[0]) * len(ikjt.features)


def _layout(ikjt: Ikjt, session_id: npt.NDArray[Any], hash_mask: np.uint64 = ALL_BITS) -> tuple[I64, I64, I64] | None:
    """Where each value of the buffers lies in the rows, the buffers' offsets [P + 1], and each row's start [U].

    None where features differ in their lengths. `hash_mask` removes bits of the hash, as in `number_rows`.
    """
    check_sessions(ikjt.group, session_id, ikjt.num_samples)
    features = list(ikjt.features.values())
    offsets = features[0].offsets
    if any(not np.array_equal(other.offsets, offsets) for other in features[1:]):
        return None
    _, first, owners = np.unique(session_id[first_samples(ikjt.inverse)], return_index=True, return_inverse=True)
    # Rows of one session side by side, each session's in the order of its samples, sessions by first appearance.
    order = np.argsort(first[owners], kind="stable")
    columns = _columns(features)
    layout = _lay_out(_hashed(columns, hash_mask), offsets, order, owners[order], REACH)
    # Whatever is equal has equal hashes, so a layout whose windows do hold their rows is the one of the values too.
    if len(columns) > 1 and not all(_holds(words, offsets, layout[0], layout[2]) for words in columns):
        layout = _lay_out(_numbered(features), offsets, order, owners[order], REACH)
    return None if len(layout[0]) > _LARGEST else layout


def _columns(features: Sequence[Jagged]) -> list[Words]:
    """[V] words of values, and of weights as bits, of all features."""
    values = [np.ascontiguousarray(rows.values) for rows in features]
    weights = [np.ascontiguousarray(rows.weights).view(np.int32) for rows in features if rows.weights is not None]
    return values + weights


def _hashed(columns: Sequence[Words], hash_mask: np.uint64) -> Words:
    """[V], one number for all columns at a position: equal where they are, and nearly never else. One is itself."""
    if len(columns) == 1:
        return columns[0]
    mixed = np.zeros(len(columns[0]), np.uint64)
    for words in columns:
        mixed ^= words.astype(np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed & hash_mask


def _numbered(features: Sequence[Jagged]) -> Words:
    """[V], one number for each combination of values, weights included, at one position of all features."""
    columns: dict[str, Jagged] = {}
    for f, rows in enumerate(features):
        each = np.arange(len(rows.values) + 1, dtype=np.int64)
        columns[str(f)] = Jagged(rows.values, each, rows.weights)
    return number_rows(columns)[1]


@compiled
def _holds(words: Words, offsets: I64, source: I64, start: I64) -> bool:
    """Whether every row's window holds the row."""
    for r in range(len(start)):
        shift = start[r] - offsets[r]
        for place in range(offsets[r], offsets[r + 1]):
            if words[place] != words[source[place + shift]]:
                return False
    return True


@compiled
def _lay_out(symbols: Words, offsets: I64, order: I64, owners: I64, reach: int) -> tuple[I64, I64, I64]:
    """The layout of all buffers, one a session that has values. Linear: Knuth-Morris-Pratt within reach."""
    longest = 0
    for r in range(len(offsets) - 1):
        longest = max(longest, offsets[r + 1] - offsets[r])
    border = np.zeros(longest + 1, np.int64)
    buffer = np.empty(len(symbols), symbols.dtype)
    source = np.empty(len(symbols), np.int64)
    start = np.zeros(len(offsets) - 1, np.int64)
    bounds = np.zeros(len(order) + 1, np.int64)
    num_buffers, begin, filled = 0, 0, 0
    for i in range(len(order)):
        if i > 0 and owners[i] != owners[i - 1] and filled > begin:
            num_buffers += 1
            bounds[num_buffers] = filled
            begin = filled
        first = offsets[order[i]]
        row = symbols[first : offsets[order[i] + 1]]
        if len(row) == 0:
            continue
        low = max(begin, filled - max(reach, 4 * len(row)))
        at, kept = _place(buffer[low:filled], row, border)
        start[order[i]] = low + at
        for k in range(kept, len(row)):
            buffer[filled] = row[k]
            source[filled] = first + k
            filled += 1
    if filled > begin:
        num_buffers += 1
        bounds[num_buffers] = filled
    return source[:filled].copy(), bounds[: num_buffers + 1].copy(), start


@compiled
def _place(buffer: Words, row: Words, border: I64) -> tuple[int, int]:
    """Where the row begins in the buffer, and how many of its values are there already: all, or a beginning."""
    matched = 0
    for k in range(1, len(row)):
        while matched > 0 and row[k] != row[matched]:
            matched = border[matched]
        if row[k] == row[matched]:
            matched += 1
        border[k + 1] = matched
    matched = 0
    for place in range(len(buffer)):
        while matched > 0 and buffer[place] != row[matched]:
            matched = border[matched]
        if buffer[place] == row[matched]:
            matched += 1
        if matched == len(row):
            return place + 1 - matched, matched
    return len(buffer) - matched, matched
