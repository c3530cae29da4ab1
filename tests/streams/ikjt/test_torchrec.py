"""Both TorchRec forms of a batch: the same pooled embeddings, the same as a dense oracle, and lossless back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import as_windows, deduplicate_windows
from streams.ikjt.torchrec import from_kjt, to_kjt, to_vbe
from streams.ikjt.windows import Group, PartialIkjt
from tests.streams.ikjt.strategies import feature_groups, shifting_groups
from tests.streams.ikjt.test_dedup import same_ikjt

F32 = npt.NDArray[np.float32]
ROWS, DIM = 50, 4


def collection(table_of: dict[str, str], *, weighted: bool) -> EmbeddingBagCollection:
    """Sum pooling over small tables with fixed weights; the output's columns are in table order."""
    torch.manual_seed(0)
    tables = [
        EmbeddingBagConfig(
            name=table,
            num_embeddings=ROWS,
            embedding_dim=DIM,
            feature_names=[key for key, name in table_of.items() if name == table],
        )
        for table in dict.fromkeys(table_of.values())
    ]
    return EmbeddingBagCollection(tables=tables, is_weighted=weighted)


def oracle(tables: EmbeddingBagCollection, table_of: dict[str, str], groups: Sequence[Group]) -> dict[str, F32]:
    """Key to [B, DIM], one sample after the other, in numpy."""
    pooled: dict[str, F32] = {}
    for group in groups:
        for key, rows in group.expand().items():
            table = tables.embedding_bags[table_of[key]].weight.detach().numpy()
            weights = np.ones(len(rows.values), np.float32) if rows.weights is None else rows.weights
            cut = [slice(rows.offsets[b], rows.offsets[b + 1]) for b in range(rows.num_rows)]
            pooled[key] = np.stack([(table[rows.values[s]] * weights[s, None]).sum(axis=0) for s in cut])
    return pooled


def assert_both_forms_pool_like_the_oracle(
    groups: Sequence[Group], table_of: dict[str, str], *, weighted: bool
) -> None:
    tables = collection(table_of, weighted=weighted)
    expected = oracle(tables, table_of, groups)
    for kjt in (to_kjt(groups), to_vbe(groups)):
        pooled = tables(kjt).to_dict()
        assert set(pooled) == set(expected)
        for key, values in expected.items():
            np.testing.assert_allclose(pooled[key].detach().numpy(), values, rtol=1e-5, atol=1e-6)


def example() -> list[Ikjt]:
    """Six samples, two groups with two and four distinct rows, two features that share a table."""
    clicked = Jagged.from_lists([[1, 2, 3], [1, 2, 3], [4], [4], [1, 2, 3], [4]])
    viewed = Jagged.from_lists([list(range(40)), list(range(40)), [], [], list(range(40)), []])
    item = Jagged.from_lists([[7], [8], [], [9, 9], [7], [8]])
    return [deduplicate("user", {"clicked": clicked, "viewed": viewed}), deduplicate("item", {"item": item})]


TABLE_OF = {"clicked": "item_table", "viewed": "item_table", "item": "other"}


def test_both_forms_pool_to_the_same_as_a_dense_oracle() -> None:
    assert_both_forms_pool_like_the_oracle(example(), TABLE_OF, weighted=False)


def test_groups_in_another_order_than_the_tables_pool_to_the_same() -> None:
    assert_both_forms_pool_like_the_oracle(example()[::-1], TABLE_OF, weighted=False)


def test_a_weighted_feature_beside_unweighted_ones_pools_to_the_same() -> None:
    groups = example()
    rows = groups[1].expand()["item"]
    weights = np.linspace(0.5, 2.0, len(rows.values), dtype=np.float32)
    weighted = deduplicate("item", {"item": Jagged(rows.values, rows.offsets, weights)})
    assert_both_forms_pool_like_the_oracle([groups[0], weighted], TABLE_OF, weighted=True)
    weights_of_all = to_vbe([groups[0], weighted]).weights()
    assert len(weights_of_all) == len(to_vbe([groups[0], weighted]).values())
    assert bool((weights_of_all[: groups[0].num_values] == 1).all())


def windows() -> list[Group]:
    """One batch of a weighted history that shifts, one of 32-bit ids that grows, both partial, and an exact item."""
    session = np.asarray([1, 1, 1, 2, 2, 2], dtype=np.uint64)
    lists = [[1, 2], [1, 2, 3], [2, 3, 4], [9], [9], []]
    places = Jagged.from_lists(lists)
    weights = (places.values / 4).astype(np.float32)
    grows = Jagged.from_lists([list(range(b)) for b in range(6)])
    narrow = Jagged(grows.values.astype(np.int32), grows.offsets)
    return [
        deduplicate_windows("h", {"clicked": Jagged(places.values, places.offsets, weights)}, session),
        deduplicate_windows("g", {"viewed": narrow}, session),
        deduplicate("item", {"item": Jagged.from_lists([[7], [8], [], [9, 9], [7], [8]])}),
    ]


def test_windows_beside_exact_rows_pool_to_the_same_in_any_order_of_groups() -> None:
    groups = windows()
    assert [isinstance(group, PartialIkjt) for group in groups] == [True, True, False]
    assert_both_forms_pool_like_the_oracle(groups, TABLE_OF, weighted=True)
    assert_both_forms_pool_like_the_oracle(groups[::-1], TABLE_OF, weighted=True)
    assert_both_forms_pool_like_the_oracle([groups[1], groups[0], groups[2]], TABLE_OF, weighted=True)


def test_windows_of_one_row_each_keep_the_form_per_key() -> None:
    rows = Jagged.from_lists([[1], [2], [3]])
    groups = [deduplicate_windows(name, {key: rows}, np.ones(3)) for name, key in (("a", "clicked"), ("b", "item"))]
    kjt = to_vbe(groups)
    assert kjt.stride_per_key_per_rank() == [[3], [3]]
    assert kjt.variable_stride_per_key()


def test_keys_come_in_the_order_that_is_asked_for_and_with_their_own_inverse() -> None:
    groups = windows()
    order = ["item", "clicked"]
    for convert in (to_kjt, to_vbe):
        kjt = convert(groups, order)
        assert kjt.keys() == order
        found = {group.group: group for group in from_kjt(kjt)}
        for group in (groups[0], groups[2]):
            for key, rows in group.expand().items():
                assert found[key].expand()[key].to_lists() == rows.to_lists()
    with pytest.raises(
        ValueError, match=r"keys must be different ones of clicked, viewed, item.*not \['item', 'item'\]"
    ):
        to_vbe(groups, ["item", "item"])
    with pytest.raises(ValueError, match=r"not \['price'\]"):
        to_kjt(groups, ["price"])


@pytest.mark.parametrize("lists", [[], [[]], [[5]], [[5, 6]], [[], [], []]])
def test_empty_batches_empty_rows_and_single_samples_are_converted_in_either_form(lists: list[list[int]]) -> None:
    rows = Jagged.from_lists(lists)
    groups = [
        deduplicate("e", {"item": rows}),
        deduplicate_windows("p", {"clicked": rows}, np.zeros(len(lists), dtype=np.uint64)),
    ]
    for kjt in (to_kjt(groups), to_vbe(groups)):
        assert kjt.stride() == len(lists)
        assert [group.expand()[group.group].to_lists() for group in from_kjt(kjt)] == [lists, lists]


def test_rows_of_a_hundred_thousand_values_are_converted_in_either_form() -> None:
    clicks = np.arange(100_002, dtype=np.int64)
    rows = Jagged(np.concatenate([clicks[b : b + 100_000] for b in range(3)]), np.arange(4, dtype=np.int64) * 100_000)
    group = deduplicate_windows("p", {"clicked": rows}, np.zeros(3, dtype=np.uint64))
    assert group.num_values == 100_002
    for kjt in (to_kjt([group]), to_vbe([group])):
        assert np.array_equal(kjt.values().numpy(), rows.values)


@settings(max_examples=40, deadline=None)
@given(shifting_groups())
def test_any_partial_group_converts_to_what_its_exact_form_converts_to(features: dict[str, Jagged]) -> None:
    exact = deduplicate("g", features)
    partial = as_windows(exact, np.zeros(exact.num_samples, dtype=np.uint64))
    assert isinstance(partial, PartialIkjt)
    for convert in (to_kjt, to_vbe):
        left, right = convert([partial]), convert([exact])
        assert torch.equal(left.values(), right.values())
        assert torch.equal(left.lengths(), right.lengths())
        assert left.stride_per_key() == right.stride_per_key()
        assert (left.weights_or_none() is None) == (right.weights_or_none() is None)
        assert left.weights_or_none() is None or torch.equal(left.weights(), right.weights())


def test_a_batch_without_any_repeat_keeps_the_form_per_key() -> None:
    rows = Jagged.from_lists([[1], [2], [3]])
    groups = [deduplicate("a", {"clicked": rows, "viewed": rows}), deduplicate("b", {"item": rows})]
    kjt = to_vbe(groups)
    assert kjt.variable_stride_per_key()
    assert kjt.stride_per_key_per_rank() == [[3], [3], [3]]
    assert_both_forms_pool_like_the_oracle(groups, TABLE_OF, weighted=False)


def test_a_batch_whose_rows_are_all_empty_pools_to_zeros() -> None:
    rows = Jagged.from_lists([[], [], [], []])
    groups = [deduplicate("a", {"clicked": rows, "viewed": rows}), deduplicate("b", {"item": rows})]
    assert_both_forms_pool_like_the_oracle(groups, TABLE_OF, weighted=False)


def test_the_batch_size_is_that_of_the_samples_and_not_of_the_distinct_rows() -> None:
    kjt = to_vbe(example())
    assert kjt.stride_per_key() == [2, 2, 4]
    assert kjt.stride() == 6
    assert kjt.inverse_indices()[1].shape == (3, 6)


def test_rows_that_are_swapped_give_another_result() -> None:
    groups = example()
    rows_of = {key: rows.take(np.asarray([1, 0])) for key, rows in groups[0].features.items()}
    swapped = Ikjt(groups[0].group, rows_of, groups[0].inverse)
    tables = collection(TABLE_OF, weighted=False)
    assert not torch.equal(tables(to_vbe([swapped, groups[1]])).values(), tables(to_vbe(groups)).values())


@settings(max_examples=40, deadline=None)
@given(feature_groups())
def test_any_group_survives_the_way_through_either_form(features: dict[str, Jagged]) -> None:
    weighted = any(rows.weights is not None for rows in features.values())
    wide = {
        key: Jagged(
            rows.values.astype(np.int64),
            rows.offsets,
            np.ones(len(rows.values), np.float32) if weighted and rows.weights is None else rows.weights,
        )
        for key, rows in features.items()
    }
    ikjt = deduplicate("g", wide)
    for kjt in (to_kjt([ikjt]), to_vbe([ikjt])):
        (back,) = from_kjt(kjt, {"g": list(wide)})
        assert same_ikjt(back, ikjt)


def test_every_key_becomes_a_group_of_its_own_unless_told_otherwise() -> None:
    kjt = KeyedJaggedTensor(
        keys=["a", "b"], values=torch.tensor([1, 1, 2, 3, 3, 3]), lengths=torch.tensor([1, 1, 1, 1, 1, 1])
    )
    groups = from_kjt(kjt)
    assert [group.group for group in groups] == ["a", "b"]
    assert [group.inverse.tolist() for group in groups] == [[0, 0, 1], [0, 0, 0]]


def test_groups_that_do_not_go_together_are_refused_by_name() -> None:
    groups = example()
    other = deduplicate("other", {"x": Jagged.from_lists([[1]])})
    with pytest.raises(ValueError, match="at least one key"):
        to_kjt([])
    with pytest.raises(ValueError, match="key clicked is in two groups"):
        to_vbe([groups[0], groups[0]])
    with pytest.raises(ValueError, match=r"different batches: samples are {'user': 6, 'other': 1}"):
        to_kjt([groups[0], other])
    with pytest.raises(ValueError, match="no key y in the KeyedJaggedTensor; it has clicked, viewed, item"):
        from_kjt(to_kjt(groups), {"g": ["y"]})


def test_torchrec_is_handed_nothing_that_it_would_read_beyond() -> None:
    rows = Jagged.from_lists([[1], [2]])
    for make in (to_kjt, to_vbe):
        with pytest.raises(ValueError, match="group g: sample 1 uses row 7; there are 2 rows"):
            make([Ikjt("g", {"a": rows}, np.asarray([0, 7], np.int32))])
        with pytest.raises(ValueError, match="group g, feature a: offsets"):
            make([Ikjt("g", {"a": Jagged(np.arange(1), np.asarray([0, 4]))}, np.asarray([0], np.int32))])
