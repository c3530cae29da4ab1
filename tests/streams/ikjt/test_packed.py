"""Tensors in one buffer: the same values and shapes, one copy to a device, and nothing that waits for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.ikjt.packed import ALIGNMENT, PackedTensors
from tests.streams.ikjt.on_device import META, NoWait

DTYPES = [np.int32, np.int64, np.uint64, np.float32, np.float64, np.bool_, np.uint8]


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, npt.NDArray[Any]]:
    shapes = draw(st.lists(st.lists(st.integers(0, 3), max_size=3).map(tuple), max_size=5))
    drawn = {}
    for n, shape in enumerate(shapes):
        dtype = np.dtype(draw(st.sampled_from(DTYPES)))
        raw = draw(
            st.binary(min_size=int(np.prod(shape)) * dtype.itemsize, max_size=int(np.prod(shape)) * dtype.itemsize)
        )
        words = np.frombuffer(raw, np.uint8) % 2 if dtype == np.bool_ else np.frombuffer(raw, np.uint8)
        drawn[f"array{n}"] = words.view(dtype).reshape(shape)
    return drawn


@settings(max_examples=100, deadline=None)
@given(arrays())
def test_arrays_come_back_bit_by_bit_as_arrays_and_as_tensors(named: dict[str, npt.NDArray[Any]]) -> None:
    packed = PackedTensors.of(named)
    assert list(packed) == list(named)
    back = packed.to_arrays()
    for name, array in named.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert back[name].tobytes() == array.tobytes()
        assert packed[name].numpy().tobytes() == array.tobytes()
        assert packed[name].data_ptr() % ALIGNMENT == 0 or packed[name].numel() == 0


def test_arrays_that_are_not_side_by_side_in_memory_are_packed_by_value() -> None:
    matrix = np.arange(12, dtype=np.int64).reshape(3, 4)
    packed = PackedTensors.of({"columns": matrix.T, "each_second": matrix[:, ::2]})
    assert packed["columns"].tolist() == matrix.T.tolist()
    assert packed["each_second"].tolist() == matrix[:, ::2].tolist()


def test_a_move_is_one_copy_and_no_tensor_waits_for_the_device() -> None:
    packed = PackedTensors.of({"a": np.arange(5), "b": np.ones((2, 3), np.float32), "c": np.zeros(0, np.int32)})
    with NoWait() as watch:
        moved = packed.to(META)
        shapes = {name: (moved[name].shape, moved[name].dtype) for name in moved}
    assert watch.copies == 1
    assert moved.device == META
    assert shapes["b"] == ((2, 3), torch.float32)
    assert shapes["c"] == ((0,), torch.int32)


def test_the_watch_does_see_what_waits() -> None:
    with NoWait():
        moved = PackedTensors.of({"a": np.arange(5)}).to(META)
        with pytest.raises(Exception, match=r"waits|meta"):
            moved["a"].sum().item()
        with pytest.raises(Exception, match=r"waits|meta"):
            moved["a"].nonzero()
        with pytest.raises(AssertionError, match="copies and waits"):
            torch.zeros(3).to(META)


def test_an_array_that_no_tensor_can_hold_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="array group: <U4 is none of int32"):
        PackedTensors.of({"group": np.asarray("user")})


def test_pinning_where_there_is_no_device_changes_nothing() -> None:
    packed = PackedTensors.of({"a": np.arange(5)}, pin_memory=True).pin_memory()
    assert packed["a"].tolist() == [0, 1, 2, 3, 4]
    assert packed.buffer.is_pinned() == torch.accelerator.is_available()
    assert repr(packed) == "PackedTensors(1 tensors, 40 bytes, cpu)"
