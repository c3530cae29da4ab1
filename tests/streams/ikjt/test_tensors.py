"""Groups as tensors: lossless in either form, moved in one copy, and looked up as the samples would be."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from torch.nn.functional import embedding_bag

from streams.ikjt.tensors import to_tensors
from streams.minibatch import MiniBatch
from tests.streams.batches import fixed_partial_batch, mini_batches
from tests.streams.ikjt.on_device import META, NoWait
from tests.streams.ikjt.test_partial import same_group

BATCH = fixed_partial_batch()


@settings(max_examples=100, deadline=None)
@given(mini_batches())
def test_groups_of_any_form_come_back_from_tensors_bit_by_bit(batch: MiniBatch) -> None:
    back = to_tensors(batch.groups).to("cpu").to_groups()
    assert len(back) == len(batch.groups)
    assert all(same_group(a, b) for a, b in zip(back, batch.groups, strict=True))


def test_a_group_has_its_rows_windows_inverse_and_dense_columns_as_tensors() -> None:
    user, item, clicks, profile = to_tensors(BATCH.groups).groups
    assert user.rows["history"].values.tolist() == BATCH.groups[0].features["history"].values.tolist()
    assert user.rows["history"].weights is None
    assert user.rows["tags"].weights is not None
    assert user.rows["tags"].values.dtype == torch.int32
    assert item.windows is None
    assert clicks.windows is not None
    assert clicks.windows[1].tolist() == [2, 3, 3, 0, 1]
    assert profile.dense is not None
    assert profile.dense[profile.inverse].tolist() == [[30, 0.5]] * 3 + [[41, -0.0]] * 2
    assert profile.dense_names == ("age", "income")


def test_rows_are_looked_up_once_and_expanded_to_what_every_sample_would_get() -> None:
    table = torch.arange(20, dtype=torch.float32).reshape(10, 2)
    (profile,) = to_tensors(BATCH.groups[3:]).groups
    rows = profile.rows["city"]
    pooled = embedding_bag(rows.values, table, rows.offsets, mode="sum", include_last_offset=True)
    assert len(pooled) == 2
    assert pooled[profile.inverse].tolist() == [table[8].tolist()] * 3 + [table[9].tolist()] * 2


def test_all_groups_move_in_one_copy_and_nothing_waits_for_the_device() -> None:
    tensors = to_tensors(BATCH.groups)
    with NoWait() as watch:
        moved = tensors.to(META)
        shapes = [(group.inverse.shape, group.rows[key].offsets.shape) for group in moved.groups for key in group.rows]
    assert watch.copies == 1
    assert shapes == [((5,), (group.num_rows + 1,)) if g != 2 else ((5,), (3,))
                      for g, group in enumerate(BATCH.groups) for _ in group.keys]  # fmt: skip
    assert repr(moved).startswith("GroupTensors(user, item, clicks, profile; ")
    assert repr(moved).endswith(" bytes on meta)")
