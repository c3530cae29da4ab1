"""Joins, cuts and splits mini-batches.

Owns what becomes of their columns; the groups are `ikjt.regroup`. Every result is a valid mini-batch, equal in every
bit to the one that the same samples would have been built into. Never numbers batches: results keep the partition
and sequence of the (first) batch they come from, and whoever sends them gives them numbers of their own.

Shape suffixes: B samples, C sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from streams import wire
from streams.ikjt.regroup import concat_groups, slice_group
from streams.minibatch import Lineage, MiniBatch

I64 = npt.NDArray[np.int64]


def concat(batches: Sequence[MiniBatch]) -> MiniBatch:
    """The samples of all batches, one after the other, deduplicated together; complete up to the latest watermark.

    Raises ValueError for batches of different partitions, schemas, rates of negatives, groups or columns.
    """
    if not batches:
        raise ValueError("no mini-batches to join; give at least one")
    head = batches[0]
    for batch in batches:
        for name in ("partition", "fingerprint", "negative_rate"):
            if getattr(batch, name) != getattr(head, name):
                raise ValueError(
                    f"mini-batches of {name} {getattr(head, name)} and {getattr(batch, name)} do not go together"
                )
        shapes = [(b.labels.shape[1], b.dense.shape[1], [group.group for group in b.groups]) for b in (head, batch)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"mini-batches differ in (labels, dense columns, groups): {shapes[0]} and {shapes[1]}")
    lineage = Lineage(
        **{
            each.name: np.concatenate([getattr(batch.lineage, each.name) for batch in batches])
            for each in fields(Lineage)
        }
    )
    return replace(
        head,
        watermark_ms=max(batch.watermark_ms for batch in batches),
        lineage=lineage,
        labels=np.concatenate([batch.labels for batch in batches]),
        dense=np.concatenate([batch.dense for batch in batches]),
        groups=tuple(
            concat_groups([batch.groups[g] for batch in batches], lineage.session_id) for g in range(len(head.groups))
        ),
        stage=None if all(batch.all_settled for batch in batches) else np.concatenate([b.stages for b in batches]),
    )


def slice_batch(batch: MiniBatch, start: int, stop: int) -> MiniBatch:
    """Samples [start, stop). Raises ValueError if they are not all there."""
    if not 0 <= start <= stop <= len(batch):
        raise ValueError(f"samples {start} to {stop} are not all there: the mini-batch has {len(batch)}")
    lineage = batch.lineage
    return replace(
        batch,
        lineage=Lineage(**{each.name: getattr(lineage, each.name)[start:stop] for each in fields(Lineage)}),
        labels=batch.labels[start:stop],
        dense=batch.dense[start:stop],
        groups=tuple(slice_group(group, start, stop, lineage.session_id) for group in batch.groups),
        stage=None if batch.stage is None else batch.stage[start:stop],
    )


def split_by_rows(batch: MiniBatch, max_samples: int) -> list[MiniBatch]:
    """Batches of whole sessions with at most `max_samples` samples each, as few as their order allows.

    A session larger than that is the only one that is split, into parts of `max_samples`; the rest of it may share
    its batch with the sessions behind it. A batch that fits is returned itself.
    """
    if max_samples < 1:
        raise ValueError(f"max_samples must be at least 1, not {max_samples}")
    if len(batch) <= max_samples:
        return [batch]
    bounds = session_bounds(batch).tolist()
    cuts = [0]
    for start, stop in pairwise(bounds):
        if stop - cuts[-1] > max_samples and start > cuts[-1]:
            cuts.append(start)
        while stop - cuts[-1] > max_samples:
            cuts.append(cuts[-1] + max_samples)
    return [slice_batch(batch, start, stop) for start, stop in zip(cuts, [*cuts[1:], len(batch)], strict=True)]


def split_by_bytes(batch: MiniBatch, max_bytes: int) -> list[MiniBatch]:
    """Batches whose messages have at most `max_bytes` bytes, cut between sessions.

    What is too large is cut at the boundary nearest to its middle, and so on; a session that is too large alone, in
    its own middle. Raises ValueError if a single sample is too large. A batch that fits is returned itself.
    """
    size = len(wire.encode(batch))
    if size <= max_bytes:
        return [batch]
    if len(batch) < 2:
        sample = f"sample {batch.lineage.event_id[0]:016x}" if len(batch) else "a mini-batch without samples"
        raise ValueError(f"{sample} has {size} bytes on the wire, more than {max_bytes}; raise the limit")
    bounds = session_bounds(batch)[1:-1]
    middle = len(batch) // 2
    cut = int(bounds[np.argmin(np.abs(bounds - middle))]) if len(bounds) else middle
    halves = slice_batch(batch, 0, cut), slice_batch(batch, cut, len(batch))
    return [part for half in halves for part in split_by_bytes(half, max_bytes)]


def session_bounds(batch: MiniBatch) -> I64:
    """[C + 1], where each session, or part of one, begins, and the end of the last; only 0 for an empty batch."""
    session = batch.lineage.session_id
    inner = np.flatnonzero(session[1:] != session[:-1]) + 1
    ends = [0, len(session)] if len(session) else [0]
    return np.concatenate([ends[:1], inner, ends[1:]]).astype(np.int64)
