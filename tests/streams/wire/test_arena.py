"""One decode, one memory: what the trainer and the device are given lies in the arena of the message."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.wire import tensors_of
from streams.minibatch import MiniBatch
from streams.wire import decode, encode
from tests.streams.batches import fixed_batch, fixed_partial_batch
from tests.streams.wire.test_codec import columns_of, memory_of
from tests.streams.wire.test_shared_ids import large_batch


def arena_of(column: npt.NDArray[np.float32]) -> tuple[int, int]:
    """First and last address of the memory that a column is a view of."""
    memory = memory_of(column)
    assert isinstance(memory, np.ndarray)
    start, end = np.lib.array_utils.byte_bounds(memory)
    return int(start), int(end)


@pytest.mark.parametrize("make", [fixed_batch, fixed_partial_batch, large_batch])
def test_every_tensor_points_into_the_one_memory_of_its_message(make: Callable[[], MiniBatch]) -> None:
    decoded = decode(encode(make()))
    found = tensors_of(decoded)
    start, end = arena_of(decoded.labels)
    for tensor in found:
        assert start <= tensor.data_ptr()
        assert tensor.data_ptr() + tensor.numel() * tensor.element_size() <= end
    decoded.labels[0] = 7.0
    assert float(found[0][0, 0]) == 7.0


def test_columns_do_not_overlap() -> None:
    decoded = decode(encode(large_batch()))
    columns = [column for column in columns_of(decoded) if column.size]
    bounds = sorted(np.lib.array_utils.byte_bounds(column) for column in columns)
    assert all(end <= start for (_, end), (start, _) in pairwise(bounds))


def test_the_arena_is_little_larger_than_what_lies_in_it() -> None:
    decoded = decode(encode(large_batch()))
    start, end = arena_of(decoded.labels)
    columns = columns_of(decoded)
    assert end - start <= sum(column.nbytes for column in columns) + 64 * (len(columns) + 1)
