"""How large the message of a mini-batch can become, without encoding it.

Owns the bound. It depends on nothing but the columns' sizes, so that what is decided by it is decided again in every
replay, whatever zstd and the encodings become.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from streams.ikjt.ikjt import Ikjt
from streams.ikjt.windows import Group
from streams.minibatch import Lineage, MiniBatch
from streams.wire.layout import ALIGNMENT, HEADER_BYTES
from streams.wire.table import table_bytes

_NAMELESS: Final = 10
"""Sections that every message may have and that carry no name."""
_RATE_BYTES: Final = 8
_STAGE_BYTES: Final = 4
"""A sample's stage, which is an int32 on the wire."""


def most_bytes(batch: MiniBatch) -> int:
    """No less than the message has: every column as it is, every gap, and what zstd adds to what it cannot compress."""
    nbytes: list[int] = [getattr(batch.lineage, each.name).nbytes for each in fields(Lineage)]
    nbytes += [batch.labels.nbytes, batch.dense.nbytes, _RATE_BYTES, _STAGE_BYTES * len(batch)]
    names = [""] * _NAMELESS
    for group in batch.groups:
        nbytes.append(_group_bytes(group))
        # Its own sections at most, and lengths, values and weights of each feature.
        names += [group.group, "\0".join(group.dense_names), *[group.group] * 3, *group.keys * 3]
    body = table_bytes(names) + sum(nbytes) + ALIGNMENT * len(names)
    return HEADER_BYTES + body + body // 128 + 64


def _group_bytes(group: Group) -> int:
    own = group.inverse.nbytes + (0 if group.dense is None else group.dense.nbytes)
    if isinstance(group, Ikjt):
        return own + sum(rows.nbytes for rows in group.features.values())
    return own + group.start.nbytes + group.length.nbytes + sum(rows.nbytes for rows in group.buffers.values())
