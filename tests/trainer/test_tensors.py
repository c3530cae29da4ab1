"""A step's tensors: what is looked up, in which bags, and which sample uses which row."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, takewhile

import numpy as np
import pytest
import torch

from streams.errors import ConfigError, InvariantError
from streams.ikjt import transform_ids
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import as_windows
from streams.ikjt.windows import PartialIkjt
from streams.minibatch import MiniBatch
from tests.trainer.sample import batch_of, ikjt_of, model_of, random_batch, schema_of
from trainer.ids import first_rows, mapping_of
from trainer.tensors import StepBatch, newest_first, to_tensors

SCHEMA, MODEL = schema_of(), model_of()


def samples_of(batch: StepBatch, key: str, group: str) -> list[list[int]]:
    """Rows of the arena that each sample of a feature looks up, read back from the tensors."""
    rows = batch.features[key]
    first_bag = sum(batch.features[before].num_bags for before in takewhile(lambda each: each != key, batch.features))
    first, last = batch.offsets_N1[first_bag], batch.offsets_N1[first_bag + rows.num_bags]
    ids = batch.ids_V[first:last].tolist()
    offsets = rows.offsets_U1.tolist()
    unique = [ids[start:stop] for start, stop in pairwise(offsets)]
    expansion = batch.expansions[group]
    return unique if expansion is None else [unique[u] for u in expansion.inverse_B.tolist()]


def expected(batches: list[MiniBatch], key: str) -> list[list[int]]:
    """The same, from the mini-batches expanded row by row."""
    table = SCHEMA.table_of[key]
    lists = []
    for batch in batches:
        for group in batch.groups:
            if key in group.features:
                lists += group.expand()[key].to_lists()
    if key == "history":
        lists = [ids[-4:][::-1] for ids in lists]
    first = first_rows(MODEL.tables)[table]
    mapping = mapping_of(table, MODEL.tables[table])
    return [(transform_ids(np.asarray(ids, np.int64), mapping) + first).tolist() for ids in lists]


@pytest.mark.parametrize("deduplicated", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_every_sample_looks_up_its_own_ids(seed: int, *, deduplicated: bool) -> None:
    rng = np.random.default_rng(seed)
    batches = [random_batch(rng, 10), random_batch(rng, 1), random_batch(rng, 17)]
    step = to_tensors(batches, SCHEMA, MODEL, deduplicated=deduplicated)
    for group in SCHEMA.all_groups:
        for key in group.features:
            assert samples_of(step, key, group.name) == expected(batches, key)
    assert torch.equal(step.labels_BT, torch.from_numpy(np.concatenate([batch.labels for batch in batches])))
    assert step.num_samples == 28


def test_unique_rows_are_looked_up_once_and_plain_ones_per_sample() -> None:
    batch = random_batch(np.random.default_rng(0), 24)
    ours, plain = to_tensors([batch], SCHEMA, MODEL), to_tensors([batch], SCHEMA, MODEL, deduplicated=False)
    assert ours.counts.rows["profile"] == 4
    assert set(plain.counts.rows.values()) == {24}
    assert ours.counts.ids < plain.counts.ids
    assert ours.counts.ids_expanded == plain.counts.ids_expanded == plain.counts.ids


def test_ids_out_of_range_are_counted_once_per_sample_in_both_forms() -> None:
    profile = ikjt_of("profile", [{"user": [1], "tags": [3, 8, -1]}] * 3 + [{"user": [2], "tags": [7]}])
    rest = [ikjt_of(key, [{key: []}] * 4) for key in ("item", "similar", "history")]
    batch = batch_of([profile, *rest], [[0, 0]] * 4, [[0, 0]] * 4)
    for deduplicated in (True, False):
        step = to_tensors([batch], SCHEMA, MODEL, deduplicated=deduplicated)
        assert step.counts.out_of_range == {"tag": 6}


def test_samples_of_a_row_are_listed_together() -> None:
    batch = random_batch(np.random.default_rng(1), 30)
    for expansion in to_tensors([batch], SCHEMA, MODEL).expansions.values():
        if expansion is not None:
            offsets = expansion.offsets_U1.tolist()
            for row, (start, stop) in enumerate(pairwise(offsets)):
                samples = expansion.order_B[start:stop]
                assert torch.equal(samples, (expansion.inverse_B == row).nonzero()[:, 0])


def test_a_group_without_repeats_is_not_expanded() -> None:
    items = ikjt_of("item", [{"item": [i]} for i in range(3)])
    rest = [ikjt_of("similar", [{"similar": []}] * 3), ikjt_of("history", [{"history": []}] * 3)]
    profile = ikjt_of("profile", [{"user": [5], "tags": []}] * 3)
    step = to_tensors([batch_of([profile, items, *rest], [[0, 0]] * 3, [[0, 0]] * 3)], SCHEMA, MODEL)
    assert step.expansions["item"] is None
    assert step.expansions["profile"] is not None


def test_a_missing_label_has_no_weight() -> None:
    batch = random_batch(np.random.default_rng(2), 3)
    batch.labels[1, 0] = np.nan
    step = to_tensors([batch], SCHEMA, MODEL)
    assert step.weights_BT.tolist() == [[1, 1], [0, 1], [1, 1]]
    assert bool(step.labels_BT.isfinite().all())


def test_a_sequence_is_read_newest_first() -> None:
    rows = newest_first(Jagged.from_lists([[2, 3, 4], [], [5], [6, 7]]))
    assert rows.to_lists() == [[4, 3, 2], [], [5], [7, 6]]


def test_a_mini_batch_of_another_schema_is_refused() -> None:
    batch = random_batch(np.random.default_rng(3), 4)
    swapped = MiniBatch(
        partition=0,
        sequence=0,
        watermark_ms=0,
        fingerprint=0,
        lineage=batch.lineage,
        labels=batch.labels,
        dense=batch.dense,
        groups=(batch.groups[0], batch.groups[2], batch.groups[1], batch.groups[3]),
    )
    with pytest.raises(InvariantError, match="built under another schema"):
        to_tensors([swapped], SCHEMA, MODEL)


def test_a_group_in_its_partial_form_looks_up_the_same_rows_and_counts_the_same() -> None:
    batch = random_batch(np.random.default_rng(5), 12)
    partial = replace(
        batch, groups=tuple(as_windows(group.to_exact(), batch.lineage.session_id) for group in batch.groups)
    )
    exact, windows = to_tensors([batch], SCHEMA, MODEL), to_tensors([partial], SCHEMA, MODEL)
    assert any(isinstance(group, PartialIkjt) for group in partial.groups)
    assert partial.content_hash == batch.content_hash
    assert set(exact.ids_V.tolist()) == set(windows.ids_V.tolist())
    assert replace(windows.counts, ids=exact.counts.ids) == exact.counts


def test_weighted_ids_are_refused() -> None:
    batch = random_batch(np.random.default_rng(4), 2)
    item = batch.groups[1].features["item"]
    weighted = Jagged(item.values, item.offsets, np.ones(len(item.values), np.float32))
    groups = [group.to_exact() for group in batch.groups]
    groups[1] = type(groups[1])("item", {"item": weighted}, groups[1].inverse)
    with pytest.raises(ConfigError, match="item: weighted"):
        to_tensors([batch_of(groups, batch.labels.tolist(), batch.dense.tolist())], SCHEMA, MODEL)


def test_a_step_without_mini_batches_is_refused() -> None:
    with pytest.raises(InvariantError, match="at least one"):
        to_tensors([], SCHEMA, MODEL)
