"""Which samples query which history, laid out in blocks that can be computed at once.

A session's samples share one row of keys and values and differ in their queries, so a row of n samples is a block of
n queries by L keys. Rows of like size are computed together; within such a bucket queries are padded to the most that
a row has, and keys to the longest row. A bucket more pads less and has a price of its own, so cuts are where both
together cost least. Owns the order of the rows and these cuts; made on the host while the step before is computed
(pure).

Shape suffixes: B samples, U rows, K classes of like size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.jagged import offsets_of
from streams.ikjt.kernels import compiled

I64 = npt.NDArray[np.int64]

_GROWTH: Final = 1.5
"""Queries, and keys, of a class are at most this many times the fewest: no finer cut is looked at."""
_OF_BUCKET: Final = 25_000
"""What a bucket costs beside its blocks, in products of one query and one key: a dozen small operations."""
_OF_KEY: Final = 8
"""What a padded key costs beside its products, likewise: it is copied to its place, and its gradient back."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Rows `first_row` up to `last_row` of the plan's order."""

    first_row: int
    last_row: int
    most_queries: int
    longest: int


@dataclass(frozen=True, slots=True, eq=False)
class AttentionPlan:
    """The rows in the order of their buckets; rows without a key or without a query are left out."""

    row_K: I64
    """The row of the group at each place: [rows of all buckets]."""
    key_offsets: I64
    """Places of each row's keys, one after the other, in that order."""
    query_offsets: I64
    """Places of each row's queries, likewise."""
    sample_of_query: I64
    """The sample behind each query."""
    buckets: tuple[Bucket, ...]


def plan_attention(lengths_U: I64, inverse_B: I64) -> AttentionPlan:
    """Of rows with `lengths_U` keys, and samples that read row `inverse_B`."""
    queries_U = np.bincount(inverse_B, minlength=len(lengths_U))
    taken = np.flatnonzero((lengths_U > 0) & (queries_U > 0))
    size_class = _class_of(queries_U[taken]) * 64 + _class_of(lengths_U[taken])
    order = taken[np.argsort(size_class, kind="stable")]
    first_K = np.flatnonzero(np.diff(np.sort(size_class), prepend=-1))
    queries_K = np.maximum.reduceat(queries_U[order], first_K) if len(order) else first_K
    longest_K = np.maximum.reduceat(lengths_U[order], first_K) if len(order) else first_K
    ends = cheapest_cuts(np.diff(first_K, append=len(order)), queries_K, longest_K)
    buckets = tuple(
        Bucket(int(first), int(last), int(queries_U[order[first:last]].max()), int(lengths_U[order[first:last]].max()))
        for first, last in pairwise(np.append(first_K, len(order))[ends])
    )
    place_U = np.full(len(lengths_U), len(order))
    place_U[order] = np.arange(len(order))
    samples = np.argsort(place_U[inverse_B], kind="stable")
    return AttentionPlan(
        row_K=order,
        key_offsets=offsets_of(lengths_U[order]),
        query_offsets=offsets_of(queries_U[order]),
        sample_of_query=samples[: int(queries_U[order].sum())],
        buckets=buckets,
    )


def _class_of(sizes: I64) -> I64:
    """Sizes from 1 on to classes whose greatest is at most `_GROWTH` times the smallest."""
    return np.asarray(np.floor(np.log(sizes) / np.log(_GROWTH) + 1e-9), np.int64)


@compiled
def cheapest_cuts(rows_K: I64, queries_K: I64, longest_K: I64) -> I64:
    """The classes at which buckets begin, and the number of classes: what makes all buckets together cheapest.

    rows_K: rows of each class. queries_K, longest_K: the most queries and keys of one of its rows.
    """
    num = len(rows_K)
    best = np.zeros(num + 1, np.int64)
    begin = np.zeros(num + 1, np.int64)
    for stop in range(1, num + 1):
        rows = queries = longest = 0
        for start in range(stop - 1, -1, -1):
            rows += rows_K[start]
            queries = max(queries, queries_K[start])
            longest = max(longest, longest_K[start])
            cost = best[start] + _OF_BUCKET + rows * longest * (queries + _OF_KEY)
            if start == stop - 1 or cost < best[stop]:
                best[stop], begin[stop] = cost, start
    cuts = [num]
    while cuts[-1] > 0:
        cuts.append(begin[cuts[-1]])
    return np.array(cuts[::-1], np.int64)
