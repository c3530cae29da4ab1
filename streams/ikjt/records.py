"""Samples as plain Python, a dict each, for people; and feature groups out of such records.

Owns both ways. What a record does not say of a feature is `layout`. A record is flat, since a key belongs to one group
only:

    {"history": [7, 8], "tags": [(11, 1.0), (12, 0.5)], "age": 30.0}

`history` is a feature, `tags` a weighted one, `age` a dense column of a group. Not fast, and not meant to be.
Floats come back in every bit, but for a signaling NaN, which Python makes a quiet one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.ikjt import F32
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.layout import FeatureLayout, GroupLayout
from streams.ikjt.windows import Group

Record = Mapping[str, Any]

_LARGEST: Final = float(np.finfo(np.float32).max)


def to_dicts(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """One record a sample. Raises ValueError for groups of different batches and for names that are not unique."""
    if not groups:
        raise ValueError("no feature groups to convert; give at least one")
    _check_names([name for group in groups for name in (*group.keys, *group.dense_names)])
    num_samples = {group.group: group.num_samples for group in groups}
    if len(set(num_samples.values())) > 1:
        raise ValueError(f"groups of different batches: samples are {num_samples}")
    columns: dict[str, list[Any]] = {}
    for group in groups:
        used = group.inverse.tolist()
        columns |= {key: _of_samples(rows, used) for key, rows in group.features.items()}
        if group.dense is not None:
            columns |= dict(zip(group.dense_names, group.dense[group.inverse].T.tolist(), strict=True))
    return [dict(zip(columns, sample, strict=True)) for sample in zip(*columns.values(), strict=True)]


def from_dicts(
    records: Sequence[Record], layouts: Sequence[GroupLayout], session_id: npt.NDArray[Any] | None = None
) -> tuple[Group, ...]:
    """The groups of these samples, deduplicated. `session_id` [B] is needed where a layout is partial.

    Raises ValueError that names the sample and the key for whatever the layouts do not describe.
    """
    names = [name for layout in layouts for name in (*layout.features, *layout.dense_names)]
    _check_names(names)
    known = set(names)
    for b, record in enumerate(records):
        missing = [name for name in names if name not in record]
        unknown = [name for name in record if name not in known]
        if missing or unknown:
            what = f"has no {missing[0]}" if missing else f"holds {unknown[0]}, which no layout describes"
            raise ValueError(f"sample {b}: {what}; the layouts have {', '.join(names)}")
    return tuple(_group(records, layout, session_id) for layout in layouts)


def _group(records: Sequence[Record], layout: GroupLayout, session_id: npt.NDArray[Any] | None) -> Group:
    features = {key: _feature(records, key, form) for key, form in layout.features.items()}
    dense = _dense(records, layout.dense_names) if layout.dense_names else None
    return layout.build(features, session_id, dense)


def _feature(records: Sequence[Record], key: str, form: FeatureLayout) -> Jagged:
    """B rows."""
    ids: list[int] = []
    weights: list[float] = []
    lengths: list[int] = []
    for b, record in enumerate(records):
        where = f"sample {b}, feature {key}"
        values = sequence(record[key], where)
        lengths.append(len(values))
        for value in values:
            identity, weight = _pair(value, where) if form.weighted else (value, 1.0)
            ids.append(whole(identity, form.dtype, where))
            weights.append(number(weight, where))
    offsets = offsets_of(np.asarray(lengths, np.int64))
    return Jagged(np.asarray(ids, form.dtype), offsets, np.asarray(weights, np.float32) if form.weighted else None)


def _dense(records: Sequence[Record], names: Sequence[str]) -> F32:
    """[B, K]."""
    rows = [[number(record[name], f"sample {b}, {name}") for name in names] for b, record in enumerate(records)]
    return np.asarray(rows, np.float32).reshape(len(records), len(names))


def _of_samples(rows: Jagged, used: list[int]) -> list[list[Any]]:
    """[B] lists of ids, or of (id, weight). A row is taken apart once; each sample gets a list of its own."""
    values: list[Any] = rows.values.tolist()
    if rows.weights is not None:
        values = list(zip(values, rows.weights.tolist(), strict=True))
    bounds = rows.offsets.tolist()
    lists = [values[start:stop] for start, stop in pairwise(bounds)]
    return [list(lists[u]) for u in used]


def sequence(value: object, where: str) -> Sequence[Any]:
    """The list; ValueError at `where` otherwise."""
    if isinstance(value, (list, tuple)):
        return value
    raise ValueError(f"{where}: needs a list, not {value!r}")


def _pair(value: object, where: str) -> tuple[Any, Any]:
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return value[0], value[1]
    raise ValueError(f"{where}: needs (id, weight), not {value!r}")


def number(value: object, where: str) -> float:
    """The number; ValueError at `where` otherwise."""
    if isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool):
        as_float = float(value)
        if not math.isfinite(as_float) or abs(as_float) <= _LARGEST:
            return as_float
    raise ValueError(f"{where}: needs a float32, not {value!r}")


def whole(value: object, dtype: np.dtype[Any], where: str) -> int:
    """The integer, if it is one of this type; ValueError at `where` otherwise."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        limits = np.iinfo(dtype)
        if limits.min <= value <= limits.max:
            return int(value)
    raise ValueError(f"{where}: {value!r} is no {dtype}")


def _check_names(names: Sequence[str]) -> None:
    twice = {name for name, count in Counter(names).items() if count > 1}
    if twice:
        raise ValueError(f"{min(twice)} is there twice; in a record, features and dense columns need different names")
