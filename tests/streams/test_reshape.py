"""Mini-batches joined, cut and split: always what the same samples would have been built into."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import deduplicate_windows
from streams.ikjt.windows import Group, PartialIkjt
from streams.minibatch import LINEAGE_DTYPES, Lineage, MiniBatch
from streams.reshape import concat, session_bounds, slice_batch, split_by_bytes, split_by_rows
from streams.wire import decode, encode
from tests.streams.batches import fixed_batch, fixed_partial_batch, mini_batches
from tests.streams.ikjt.test_partial import same_group
from tests.streams.wire.test_codec import same_batch


def built_from_samples(group: Group, batch: MiniBatch, start: int, stop: int) -> Group:
    """What the engine makes of the samples [start, stop) of a group, each with rows of its own."""
    samples = np.arange(start, stop)
    features = {key: rows.take(samples) for key, rows in group.expand().items()}
    expanded = group.expand_dense()
    dense = None if expanded is None else expanded[start:stop]
    if isinstance(group, PartialIkjt):
        session_id = batch.lineage.session_id[start:stop]
        return deduplicate_windows(group.group, features, session_id, dense, group.dense_names)
    return deduplicate(group.group, features, dense, group.dense_names)


def many_sessions(sizes: list[int], *, values_each: int = 20) -> MiniBatch:
    """Sessions of these sizes; each sample has random ids of its own."""
    generator = np.random.default_rng(1)
    size = sum(sizes)
    columns: dict[str, Any] = {name: np.zeros(size, dtype) for name, dtype in LINEAGE_DTYPES.items()}
    lineage = replace(Lineage(**columns), session_id=np.repeat(np.arange(len(sizes)), sizes).astype(np.uint64))
    rows = Jagged(generator.integers(0, 2**40, size * values_each), np.arange(size + 1, dtype=np.int64) * values_each)
    nothing = np.zeros((size, 0), np.float32)
    return replace(
        fixed_batch(), lineage=lineage, labels=nothing, dense=nothing, groups=(deduplicate("g", {"a": rows}),)
    )


@settings(max_examples=100, deadline=None)
@given(mini_batches(), st.data())
def test_a_slice_is_what_its_samples_would_have_been_built_into(batch: MiniBatch, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(batch)))
    stop = data.draw(st.integers(start, len(batch)))
    cut = slice_batch(batch, start, stop)
    cut.validate()
    for group, whole in zip(cut.groups, batch.groups, strict=True):
        assert same_group(group, built_from_samples(whole, batch, start, stop))
    for name in LINEAGE_DTYPES:
        assert getattr(cut.lineage, name).tolist() == getattr(batch.lineage, name)[start:stop].tolist()
    assert cut.labels.tobytes() == batch.labels[start:stop].tobytes()
    assert cut.dense.tobytes() == batch.dense[start:stop].tobytes()


@settings(max_examples=100, deadline=None)
@given(mini_batches(), st.data())
def test_the_parts_of_a_batch_joined_again_are_the_batch_bit_by_bit(batch: MiniBatch, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(batch)), max_size=3)))
    parts = [slice_batch(batch, a, b) for a, b in zip([0, *cuts], [*cuts, len(batch)], strict=True)]
    joined = concat(parts)
    joined.validate()
    assert same_batch(joined, batch)
    assert same_batch(decode(encode(joined)), batch)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 12))
def test_a_split_by_rows_keeps_sessions_whole_unless_one_alone_is_too_large(sizes: list[int], limit: int) -> None:
    batch = many_sessions(sizes, values_each=1)
    parts = split_by_rows(batch, limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert same_batch(concat(parts), batch)
    bounds = {0, *np.cumsum(sizes).tolist()}
    for end in np.cumsum([len(part) for part in parts]).tolist():
        inside = next(size for size, stop in zip(sizes, np.cumsum(sizes).tolist(), strict=True) if stop >= end)
        assert end in bounds or inside > limit
    # No two neighbours would have fitted into one.
    whole = all(size <= limit for size in sizes)
    assert not whole or all(len(part) + int(session_bounds(after)[1]) > limit for part, after in pairwise(parts))


def test_a_split_by_bytes_cuts_between_sessions_and_every_part_fits() -> None:
    batch = many_sessions([3, 5, 2, 4, 6, 1, 7])
    limit = len(encode(batch)) // 3
    parts = split_by_bytes(batch, limit)
    assert 3 < len(parts) <= 7
    assert all(len(encode(part)) <= limit for part in parts)
    assert sum(part.num_sessions for part in parts) == 7
    assert same_batch(concat(parts), batch)


def test_a_session_larger_than_the_limit_in_bytes_is_split_alone() -> None:
    batch = many_sessions([2, 40, 2])
    limit = len(encode(slice_batch(batch, 2, 42))) * 2 // 3
    parts = split_by_bytes(batch, limit)
    assert all(len(encode(part)) <= limit for part in parts)
    assert same_batch(concat(parts), batch)
    assert [int(part.lineage.session_id[0]) for part in parts] == sorted(
        int(part.lineage.session_id[0]) for part in parts
    )
    assert sum(1 in part.lineage.session_id for part in parts) > 1


def test_what_fits_is_returned_itself() -> None:
    batch = fixed_partial_batch()
    assert split_by_rows(batch, len(batch))[0] is batch
    assert split_by_bytes(batch, 10**6)[0] is batch
    empty = slice_batch(batch, 0, 0)
    assert split_by_rows(empty, 1)[0] is empty
    assert session_bounds(empty).tolist() == [0]
    assert session_bounds(batch).tolist() == [0, 3, 5]


def test_rows_that_two_batches_share_are_stored_once_and_windows_go_on() -> None:
    batch = fixed_partial_batch()
    twice = concat([batch, batch])
    assert [group.num_rows for group in twice.groups] == [group.num_rows for group in batch.groups]
    assert [group.num_values for group in twice.groups] == [group.num_values for group in batch.groups]
    assert len(twice) == 2 * len(batch)


def test_what_cannot_be_joined_cut_or_split_is_refused_in_words() -> None:
    batch = fixed_partial_batch()
    with pytest.raises(ValueError, match="no mini-batches to join"):
        concat([])
    with pytest.raises(ValueError, match="mini-batches of partition 3 and 4 do not go together"):
        concat([batch, replace(batch, partition=4)])
    with pytest.raises(ValueError, match=r"differ in \(labels, dense columns, groups\)"):
        concat([batch, replace(batch, groups=batch.groups[:2])])
    other = replace(batch.groups[1].to_exact(), features={"thing": batch.groups[1].features["item"]})
    with pytest.raises(ValueError, match=r"group item of \['item'\] cannot be joined with group item of \['thing'\]"):
        concat([batch, replace(batch, groups=(batch.groups[0], other, *batch.groups[2:]))])
    rows = batch.groups[1].features["item"]
    weighted = Jagged(rows.values, rows.offsets, np.ones(len(rows.values), np.float32))
    heavy = replace(batch.groups[1].to_exact(), features={"item": weighted})
    with pytest.raises(ValueError, match=r"feature item.item: some parts are weighted and some are not"):
        concat([batch, replace(batch, groups=(batch.groups[0], heavy, *batch.groups[2:]))])
    with pytest.raises(ValueError, match="samples 2 to 9 are not all there: the mini-batch has 5"):
        slice_batch(batch, 2, 9)
    with pytest.raises(ValueError, match="max_samples must be at least 1, not 0"):
        split_by_rows(batch, 0)
    with pytest.raises(ValueError, match=r"sample ffffffffffffffff has \d+ bytes on the wire, more than 100; raise"):
        split_by_bytes(batch, 100)
    with pytest.raises(ValueError, match="a mini-batch without samples has"):
        split_by_bytes(slice_batch(batch, 0, 0), 100)
