"""What TorchRec's type does not keep, put back by layouts; what it does not check, refused; and its way to a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.ikjt.layout import FeatureLayout, GroupLayout
from streams.ikjt.torchrec import from_kjt, to_kjt, to_vbe
from streams.minibatch import MiniBatch
from tests.streams.batches import fixed_partial_batch, mini_batches
from tests.streams.ikjt.on_device import META, NoWait
from tests.streams.ikjt.test_partial import same_group

BATCH = fixed_partial_batch()
Convert = Callable[..., KeyedJaggedTensor]
FORMS = (to_kjt, to_vbe)


def dense_of(batch: MiniBatch) -> dict[str, npt.NDArray[np.float32]]:
    """Group to [B, K], of those that have dense columns: what travels beside a KeyedJaggedTensor."""
    columns = {group.group: group.expand_dense() for group in batch.groups}
    return {name: dense for name, dense in columns.items() if dense is not None}


@settings(max_examples=60, deadline=None)
@given(mini_batches())
def test_any_batch_of_groups_comes_back_from_either_form_bit_by_bit_given_its_layouts(batch: MiniBatch) -> None:
    if not batch.groups:
        return
    layouts = [GroupLayout.of(group) for group in batch.groups]
    for convert in FORMS:
        back = from_kjt(convert(batch.groups), layouts, batch.lineage.session_id, dense_of(batch))
        assert all(same_group(a, b) for a, b in zip(back, batch.groups, strict=True))


@settings(max_examples=60, deadline=None)
@given(mini_batches())
def test_what_torchrec_would_count_on_the_device_is_what_is_given_along(batch: MiniBatch) -> None:
    if not batch.groups:
        return
    for convert in FORMS:
        kjt = convert(batch.groups)
        lengths = np.split(kjt.lengths().numpy(), np.cumsum(kjt.stride_per_key())[:-1])
        assert kjt.length_per_key_or_none() == [int(part.sum()) for part in lengths]
        assert kjt.offset_per_key_or_none() == np.cumsum([0, *map(np.sum, lengths)]).tolist()
        assert kjt.stride() == len(batch)
        rows = [len(part) for part in lengths]
        assert kjt.stride_per_key() == rows
        assert convert is to_kjt or kjt.stride_per_key_per_rank() == [[each] for each in rows]


@pytest.mark.parametrize("convert", FORMS)
def test_the_way_to_a_device_and_what_modules_ask_there_wait_for_nothing(convert: Convert) -> None:
    kjt = convert(BATCH.groups, ["city", "clicks", "history"])
    with NoWait() as watch:
        moved = kjt.to(META, non_blocking=True)
        answers = (
            moved.stride(), moved.stride_per_key(), moved.stride_per_key_per_rank(), moved.length_per_key(),
            moved.offset_per_key(), moved.lengths_offset_per_key(), moved.keys(), moved.index_per_key(),
        )  # fmt: skip
        parts = moved.split([1, 2])
        rows = moved["clicks"].values().shape
    assert watch.copies == (4 if convert is to_vbe else 3)  # values, lengths, weights; and the inverse
    expected = (
        kjt.stride(), kjt.stride_per_key(), kjt.stride_per_key_per_rank(), kjt.length_per_key(),
        kjt.offset_per_key(), kjt.lengths_offset_per_key(), kjt.keys(), kjt.index_per_key(),
    )  # fmt: skip
    assert answers == expected
    assert [part.keys() for part in parts] == [["city"], ["clicks", "history"]]
    assert rows == kjt["clicks"].values().shape


def test_without_the_counts_the_same_questions_do_wait() -> None:
    kjt = to_kjt(BATCH.groups)
    bare = KeyedJaggedTensor(keys=kjt.keys(), values=kjt.values(), lengths=kjt.lengths(), weights=kjt.weights())
    assert bare.length_per_key_or_none() is None
    assert bare.to(META, non_blocking=True).length_per_key_or_none() is None
    assert kjt.to(META, non_blocking=True).length_per_key_or_none() == bare.length_per_key()


@pytest.mark.parametrize("convert", FORMS)
def test_ids_are_64_bits_whatever_the_batch_holds(convert: Convert) -> None:
    narrow = deduplicate("n", {"x": Jagged(np.asarray([1], np.int32), np.asarray([0, 1]))})
    wide = deduplicate("w", {"x": Jagged.from_lists([[2**62]])})
    for group in (narrow, wide):
        kjt = convert([group])
        assert kjt.values().dtype == kjt.lengths().dtype == torch.int64


def test_a_batch_with_keys_and_without_samples_has_its_form_and_comes_back() -> None:
    groups = [deduplicate(name, {name: Jagged.from_lists([])}) for name in ("a", "b")]
    for convert in FORMS:
        kjt = convert(groups)
        assert (kjt.stride(), kjt.stride_per_key(), kjt.length_per_key()) == (0, [0, 0], [0, 0])
        assert [group.num_samples for group in from_kjt(kjt)] == [0, 0]
    assert to_vbe(groups).variable_stride_per_key()


def test_an_empty_row_that_all_samples_use_has_length_zero_in_every_sample() -> None:
    group = deduplicate("g", {"a": Jagged.from_lists([[], [], []])})
    assert (group.num_rows, group.inverse.tolist()) == (1, [0, 0, 0])
    assert to_kjt([group]).lengths().tolist() == [0, 0, 0]
    assert to_kjt([group]).values().tolist() == []
    assert to_vbe([group]).lengths().tolist() == [0]


def test_two_features_of_one_table_keep_their_own_lengths() -> None:
    clicked, viewed = Jagged.from_lists([list(range(3))]), Jagged.from_lists([list(range(40))])
    group = deduplicate("g", {"clicked_items": clicked, "viewed_items": viewed})
    for convert in FORMS:
        kjt = convert([group])
        assert kjt.length_per_key() == [3, 40]
        assert kjt["viewed_items"].values().tolist() == list(range(40))


def test_ids_that_are_mapped_to_others_change_the_values_and_nothing_else() -> None:
    group = BATCH.groups[0].to_exact()
    mapped = {key: Jagged(rows.values * 7 % 101, rows.offsets, rows.weights) for key, rows in group.features.items()}
    before, after = to_vbe([group]), to_vbe([replace(group, features=mapped)])
    assert not torch.equal(before.values(), after.values())
    assert torch.equal(before.lengths(), after.lengths())
    assert torch.equal(before.weights(), after.weights())
    assert before.stride_per_key_per_rank() == after.stride_per_key_per_rank()
    assert before.inverse_indices()[0] == after.inverse_indices()[0]
    assert torch.equal(before.inverse_indices()[1], after.inverse_indices()[1])


def kjt_of(
    lengths: list[int], values: list[int], inverse: list[list[int]] | None = None, **fields: object
) -> KeyedJaggedTensor:
    """Two keys, as somebody else might have built them."""
    return KeyedJaggedTensor(
        **{"keys": ["a", "b"]} | fields,
        lengths=torch.tensor(lengths),
        values=torch.tensor(values),
        inverse_indices=None if inverse is None else (["b", "a"], torch.tensor(inverse)),
    )


UNEVEN: dict[str, Any] = {"stride_per_key_per_rank": [[2], [1]]}


@pytest.mark.parametrize(
    ("kjt", "message"),
    [
        (kjt_of([1, 1, 1], [1, 2, 3]), r"3 lengths for 2 keys of \[1, 1\] rows; each row needs one"),
        (kjt_of([1, 1, 1, 1], [1, 2, 3]), "lengths add up to 4, but there are 3 values"),
        (kjt_of([1, 1, 1, -1], [1, 2]), "key b: row 1 has length -1; there are 2 values in all"),
        (kjt_of([1, 2**31 - 1, 1, 0], [1, 2]), "key a: row 1 has length 2147483647; there are 2 values in all"),
        (kjt_of([1, 1], [1, 2], keys=["a", "a"]), r"keys must be unique, not \['a', 'a'\]"),
        (kjt_of([1, 1], [1, 2], weights=torch.ones(1)), "but there are 2 values and 1 weights"),
        (kjt_of([1, 1, 1], [1, 2, 3], [[0, 0], [0, 5]], **UNEVEN), "key a: sample 1 uses row 5 of 2"),
        (kjt_of([1, 1, 1], [1, 2, 3], [[0, -1], [0, 1]], **UNEVEN), "key b: sample 1 uses row -1 of 1"),
        (kjt_of([1, 1, 1], [1, 2, 3], [[0, 0]], **UNEVEN), r"inverse indices \[1, 2\] of \['b', 'a'\]"),
        (kjt_of([1, 1, 1], [1, 2, 3], **UNEVEN), r"no inverse says which: {'a': 2, 'b': 1}"),
    ],
)  # fmt: skip
def test_a_keyed_jagged_tensor_that_does_not_fit_together_is_refused_by_key_and_row(
    kjt: KeyedJaggedTensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        from_kjt(kjt)


def test_inverse_indices_follow_their_own_order_of_keys() -> None:
    kjt = kjt_of([1, 1, 1], [1, 2, 3], [[0, 0, 0], [0, 1, 1]], **UNEVEN)
    assert {group.group: group.expand()[group.group].to_lists() for group in from_kjt(kjt)} == {
        "a": [[1], [2], [2]],
        "b": [[3], [3], [3]],
    }


def test_what_a_layout_would_lose_is_refused_by_key() -> None:
    kjt = kjt_of([1, 1, 0, 1], [1, 2, 2**40], weights=torch.tensor([1.0, 0.5, 1.0]))
    narrow = GroupLayout("g", {"b": FeatureLayout(np.dtype(np.int32), weighted=True)})
    with pytest.raises(ValueError, match="key b: id 1099511627776 is no int32"):
        from_kjt(kjt, [narrow])
    with pytest.raises(
        ValueError, match=r"key a: is not weighted by its layout, but row 1 has a weight other than 1\.0"
    ):
        from_kjt(kjt, [GroupLayout("g", {"a": FeatureLayout()})])
    with pytest.raises(ValueError, match="no key x in the KeyedJaggedTensor; it has a, b"):
        from_kjt(kjt, [GroupLayout("g", {"x": FeatureLayout()})])
    with pytest.raises(ValueError, match="group g: dense columns y are named but not there"):
        from_kjt(kjt, [GroupLayout("g", {"b": FeatureLayout(weighted=True)}, ("y",))])
    with pytest.raises(ValueError, match="group g: is partial; give the session_id"):
        from_kjt(kjt, [GroupLayout("g", {"b": FeatureLayout(weighted=True)}, partial=True)])


def test_weights_belong_to_all_values_as_soon_as_they_belong_to_one() -> None:
    for convert in FORMS:
        kjt = convert(BATCH.groups)
        assert len(kjt.weights()) == len(kjt.values())
        assert kjt["history"].weights().tolist() == [1.0] * len(kjt["history"].values())
