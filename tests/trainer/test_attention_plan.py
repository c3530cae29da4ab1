"""Blocks of queries by keys: every sample asks its own row, once, and padding is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainer.attention_plan import cheapest_cuts, plan_attention
from trainer.target_attention import asking_of

LENGTHS = st.lists(st.integers(0, 60), min_size=1, max_size=30)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Lengths of rows, and the row of each sample; some rows are asked by nobody."""
    lengths = draw(LENGTHS)
    return lengths, draw(st.lists(st.integers(0, len(lengths) - 1), max_size=80))


@given(case=histories())
def test_every_sample_with_a_history_asks_it_once(case: tuple[list[int], list[int]]) -> None:
    lengths, inverse = case
    plan = plan_attention(np.asarray(lengths), np.asarray(inverse, np.int64))
    asked = {
        int(sample): int(plan.row_K[place])
        for place in range(len(plan.row_K))
        for sample in plan.sample_of_query[plan.query_offsets[place] : plan.query_offsets[place + 1]]
    }
    assert asked == {sample: row for sample, row in enumerate(inverse) if lengths[row]}
    assert len(plan.sample_of_query) == len(asked)
    assert np.diff(plan.key_offsets).tolist() == [lengths[row] for row in plan.row_K]


@given(case=histories())
def test_buckets_hold_all_rows_and_pad_to_their_own_greatest(case: tuple[list[int], list[int]]) -> None:
    lengths, inverse = case
    plan = plan_attention(np.asarray(lengths), np.asarray(inverse, np.int64))
    ends = [0, *(bucket.last_row for bucket in plan.buckets)]
    assert [bucket.first_row for bucket in plan.buckets] == ends[:-1]
    assert ends[-1] == len(plan.row_K)
    keys, queries = np.diff(plan.key_offsets), np.diff(plan.query_offsets)
    for bucket in plan.buckets:
        rows = slice(bucket.first_row, bucket.last_row)
        assert bucket.longest == keys[rows].max()
        assert bucket.most_queries == queries[rows].max()


@given(
    classes=st.lists(st.tuples(st.integers(1, 2_000), st.integers(1, 40), st.integers(1, 200)), min_size=1, max_size=7)
)
def test_no_other_cuts_cost_less(classes: list[tuple[int, int, int]]) -> None:
    def cost(cuts: Sequence[int]) -> int:
        parts = [classes[first:last] for first, last in pairwise(cuts)]
        return sum(
            25_000
            + sum(rows for rows, _, _ in part) * max(keys for *_, keys in part) * (8 + max(q for _, q, _ in part))
            for part in parts
        )

    num = len(classes)
    found = cheapest_cuts(*(np.asarray(column) for column in zip(*classes, strict=True))).tolist()
    inner = [cuts for size in range(num) for cuts in combinations(range(1, num), size)]
    assert (found[0], found[-1]) == (0, num)
    assert cost(found) == min(cost([0, *cuts, num]) for cuts in inner)


@given(case=histories())
def test_padded_places_of_a_bucket_are_its_own(case: tuple[list[int], list[int]]) -> None:
    lengths, inverse = case
    plan = plan_attention(np.asarray(lengths), np.asarray(inverse, np.int64))
    asking = asking_of(plan, len(inverse))
    for bucket, (_, first), (_, last) in zip(plan.buckets, asking.cuts[:-1], asking.cuts[1:], strict=True):
        places = asking.place_Q[first:last].tolist()
        assert sorted(set(places)) == places
        assert places[-1] < (bucket.last_row - bucket.first_row) * bucket.most_queries
    silent = [sample for sample, row in enumerate(inverse) if not lengths[row]]
    assert (asking.query_of_sample_B == len(plan.sample_of_query)).nonzero()[:, 0].tolist() == silent
