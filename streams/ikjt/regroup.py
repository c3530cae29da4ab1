"""Joins the groups of several batches, and cuts one down to some of its samples.

Owns both for one feature group; whole mini-batches are `streams.reshape`. What comes out is, in every bit, what the
engine makes of the samples themselves: rows that two batches share are stored once, rows that no sample uses any
more are gone, and windows are laid out anew. Samples are never expanded on the way, only distinct rows are touched.

Shape suffixes: B samples, U distinct rows, R rows of all parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import F32, Ikjt
from streams.ikjt.invariants import check_sessions
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import as_windows
from streams.ikjt.windows import Group, PartialIkjt

SessionIds = npt.NDArray[Any]


def concat_groups(parts: Sequence[Group], session_id: SessionIds) -> Group:
    """One group of the samples of all parts, one after the other; partial as soon as one part is.

    `session_id` is that of all samples, [B]. Raises ValueError for parts that are not of the same group, or that
    `validate` refuses.
    """
    if not parts:
        raise ValueError("no groups to join; give at least one")
    head = parts[0]
    check_sessions(head.group, session_id, sum(part.num_samples for part in parts))
    for part in parts:
        part.validate()
        if (part.group, part.keys, part.dense_names) != (head.group, head.keys, head.dense_names):
            raise ValueError(
                f"group {head.group} of {[*head.keys, *head.dense_names]} cannot be joined with group {part.group} "
                f"of {[*part.keys, *part.dense_names]}"
            )
    exact = [part.to_exact() for part in parts]
    features = {key: _join([part.features[key] for part in exact], f"{head.group}.{key}") for key in head.keys}
    dense = _join_dense([part.dense for part in exact])
    rows = deduplicate(head.group, features, dense, head.dense_names)
    first = np.cumsum([0, *(part.num_rows for part in exact)])
    inverse_R = np.concatenate([part.inverse + start for part, start in zip(exact, first, strict=False)])
    joined = Ikjt(rows.group, rows.features, rows.inverse[inverse_R], rows.dense, rows.dense_names)
    return as_windows(joined, session_id) if any(isinstance(part, PartialIkjt) for part in parts) else joined


def slice_group(group: Group, start: int, stop: int, session_id: SessionIds) -> Group:
    """The group of samples [start, stop). `session_id` is that of the group's samples, [B].

    Raises ValueError if the samples are not all there, sessions are not those of all samples, or `validate` refuses the
    group.
    """
    group.validate()
    check_sessions(group.group, session_id, group.num_samples)
    if not 0 <= start <= stop <= group.num_samples:
        raise ValueError(
            f"group {group.group}: samples {start} to {stop} are not all there; it has {group.num_samples}"
        )
    exact = group.to_exact()
    inverse = exact.inverse[start:stop]
    used, first, new = np.unique(inverse, return_index=True, return_inverse=True)
    # By first appearance, as everywhere.
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    kept = used[order]
    features = {key: rows.take(kept) for key, rows in exact.features.items()}
    dense = None if exact.dense is None else exact.dense[kept]
    cut = Ikjt(exact.group, features, rank[new], dense, exact.dense_names)
    return as_windows(cut, session_id[start:stop]) if isinstance(group, PartialIkjt) else cut


def _join(parts: Sequence[Jagged], name: str) -> Jagged:
    """Rows of all parts, in the dtype that all of them have: it must not depend on what is joined with what."""
    dtypes = sorted({part.values.dtype.name for part in parts})
    if len(dtypes) > 1:
        raise ValueError(f"feature {name}: ids of {' and '.join(dtypes)} are not joined; give all parts one dtype")
    try:
        return Jagged.concat(parts)
    except ValueError as error:
        raise ValueError(f"feature {name}: {error}") from error


def _join_dense(parts: Sequence[F32 | None]) -> F32 | None:
    there = [dense for dense in parts if dense is not None]
    return np.concatenate(there) if there else None
