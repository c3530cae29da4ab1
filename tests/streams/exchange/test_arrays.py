"""A mini-batch as named NumPy arrays and as a file of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from streams.exchange.arrays import from_arrays, to_arrays
from streams.minibatch import MiniBatch
from tests.streams.batches import fixed_partial_batch, mini_batches
from tests.streams.ikjt.test_arrays import saved
from tests.streams.wire.test_codec import same_batch

ARRAYS = to_arrays(fixed_partial_batch())


@settings(max_examples=60, deadline=None)
@given(mini_batches())
def test_a_batch_of_any_form_comes_back_from_arrays_and_from_a_file_bit_by_bit(batch: MiniBatch) -> None:
    for arrays in (to_arrays(batch), saved(to_arrays(batch))):
        back = from_arrays(arrays)
        assert same_batch(back, batch)
        assert back.content_hash == batch.content_hash


def test_no_array_is_copied_and_none_would_need_a_pickle() -> None:
    batch = fixed_partial_batch()
    arrays = to_arrays(batch)
    assert arrays["lineage/offset"] is batch.lineage.offset
    assert arrays["labels"] is batch.labels
    assert not any(array.dtype.hasobject for array in arrays.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "there is no array labels"),
        ({"lineage/offset": None}, "there is no array lineage/offset"),
        ({"extra": np.zeros(1)}, "no mini-batch has an array extra"),
        ({"recd.minibatch": np.asarray(2)}, "recd.minibatch is 2; this version of recd reads 1"),
        ({"partition": np.asarray([3])}, "array partition must be one int64"),
        ({"fingerprint": np.asarray(3)}, "array fingerprint must be one uint64, not int64"),
        ({"labels": np.asarray(np.float32(1))}, "array labels has no dimensions"),
        ({"lineage/offset": np.asarray(1)}, "array lineage/offset has no dimensions"),
        ({"labels": np.zeros((4, 1), np.float32)}, r"labels must be \[5, …\] float32"),
        ({"groups/0/inverse": None}, "group user: there is no array groups/0/inverse"),
        ({"groups/9/group": np.asarray("late")}, "no group has an array groups/9/group; 4 groups were found"),
    ],
)
def test_arrays_that_are_no_mini_batch_are_refused_by_name(
    changes: dict[str, npt.NDArray[Any] | None], message: str
) -> None:
    new = {name: array for name, array in changes.items() if array is not None}
    kept = {name: array for name, array in ARRAYS.items() if changes.get(name, array) is not None}
    with pytest.raises(ValueError, match=message):
        from_arrays(kept | new)
