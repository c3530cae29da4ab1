"""The same samples in the formats one would use without IKJT, each as one zstd message of a mini-batch.

Owns the naive formats: a record a sample, in varints or as JSON, and IKJT whose buffers are plain int32.

A varint record is the session's number, a byte a label, the dense values, and for every feature its length and its
ids. Offsets, event ids and times are in none of them: `features_only` takes them out of our message too, and leaves
the session as a number.

Shapes: B samples, F features, V values.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from streams.ikjt.jagged import Jagged
from streams.ikjt.kernels import compiled
from streams.minibatch import Lineage, MiniBatch

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


def features_only(batch: MiniBatch) -> MiniBatch:
    """The batch without lineage, its sessions numbered by first appearance."""
    nothing = np.zeros(len(batch), np.int64)
    lineage = Lineage(
        offset=nothing,
        event_id=nothing.astype(np.uint64),
        session_id=_numbered(batch).astype(np.uint64),
        event_time_ms=nothing,
        appended_ms=nothing,
    )
    return replace(batch, lineage=lineage, watermark_ms=0)


def varint_bytes(batch: MiniBatch, level: int) -> int:
    """Compressed size of varint records, in the order of the batch."""
    columns = list(_expanded(batch).values())
    starts = np.cumsum([0, *(len(rows.values) for rows in columns)])[:-1]
    offsets = np.stack([rows.offsets + start for rows, start in zip(columns, starts, strict=True)])  # [F, B + 1]
    fixed = np.concatenate([batch.labels.astype(np.uint8), _bytes_of(batch.dense)], axis=1)  # [B, bytes]
    values = np.concatenate([rows.values.astype(np.int64) for rows in columns])
    return _compressed(_records(_numbered(batch), fixed, values, offsets), level)


def json_bytes(batch: MiniBatch, level: int) -> int:
    """Compressed size of JSON records, one a line."""
    lists = {key: rows.to_lists() for key, rows in _expanded(batch).items()}
    session, labels = _numbered(batch).tolist(), batch.labels.astype(int).tolist()
    dense = [[float(str(value)) for value in row] for row in batch.dense]  # the shortest text of a float32
    lines = [
        json.dumps(
            {"session": session[b], "label": labels[b], "dense": dense[b], **{key: lists[key][b] for key in lists}},
            separators=(",", ":"),
        )
        for b in range(len(batch))
    ]
    return _compressed("\n".join(lines).encode(), level)


def plain_ikjt_bytes(batch: MiniBatch, level: int) -> int:
    """Compressed size of the exact form with every integer an int32, and dense rows as they are."""
    parts: list[npt.NDArray[Any]] = [_numbered(batch), batch.labels, batch.dense]
    for group in batch.groups:
        parts.append(group.inverse)
        for rows in group.features.values():
            parts += [rows.lengths, rows.values]
    as_bytes = [(part if part.dtype.kind == "f" else part.astype(np.int32)).tobytes() for part in parts]
    return _compressed(b"".join(as_bytes), level)


def _expanded(batch: MiniBatch) -> dict[str, Jagged]:
    return {key: rows for group in batch.groups for key, rows in group.expand().items()}


def _numbered(batch: MiniBatch) -> I64:
    """[B], sessions numbered by first appearance."""
    _, first, number = np.unique(batch.lineage.session_id, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbered: I64 = rank[number]
    return numbered


def _bytes_of(dense: npt.NDArray[np.float32]) -> U8:
    return np.ascontiguousarray(dense).view(np.uint8).reshape(len(dense), -1)


def _compressed(data: bytes | U8, level: int) -> int:
    return len(zstandard.ZstdCompressor(level=level).compress(data if isinstance(data, bytes) else data.tobytes()))


@compiled
def _put(out: U8, at: int, value: int) -> int:
    """One varint of a number that is not negative; returns the place behind it."""
    while value >= 128:
        out[at] = (value & 127) | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@compiled
def _records(session: I64, fixed: U8, values: I64, offsets: I64) -> U8:
    """All records, one behind the other. Ids must not be negative."""
    num_features = len(offsets)
    out = np.empty(len(session) * (10 + fixed.shape[1] + 10 * num_features) + 10 * len(values), np.uint8)
    at = 0
    for b in range(len(session)):
        at = _put(out, at, session[b])
        for k in range(fixed.shape[1]):
            out[at] = fixed[b, k]
            at += 1
        for f in range(num_features):
            at = _put(out, at, offsets[f, b + 1] - offsets[f, b])
            for v in range(offsets[f, b], offsets[f, b + 1]):
                at = _put(out, at, values[v])
    return out[:at]
