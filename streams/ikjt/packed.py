"""Named arrays as tensors in one buffer, which moves to a device in one copy and without waiting. Needs torch.

Owns the buffer: where each tensor lies in it is known on the host, and stays there. So a move is one copy, whatever
the number of tensors; pinned, it runs beside the computation; and nothing is ever asked of the device.

    packed = PackedTensors.of(arrays, pin_memory=True)   # in the thread that prepares
    on_device = packed.to(device)                        # in the thread that trains: returns at once
    on_device["inverse"]                                 # a view
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

ALIGNMENT: Final = 64
"""Bytes at a multiple of which every tensor begins, as torch's own do."""

_DTYPES: Final = {
    np.dtype(name): getattr(torch, name) for name in ("int32", "int64", "uint64", "float32", "float64", "bool", "uint8")
}


class Place(NamedTuple):
    """Where a tensor lies in the buffer, and what it is."""

    start: int
    """Bytes from the beginning."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def stop(self) -> int:
        """Behind its last byte."""
        return self.start + self.dtype.itemsize * math.prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackedTensors:
    """Tensors by name, in the order of their arrays."""

    buffer: Tensor
    """All of them, as uint8."""
    places: Mapping[str, Place]

    @staticmethod
    def of(arrays: Mapping[str, npt.NDArray[Any]], *, pin_memory: bool = False) -> PackedTensors:
        """Copies the arrays into one buffer, pinned at once if asked and there is a device to pin it for.

        Raises ValueError that names an array whose type no tensor has.
        """
        places: dict[str, Place] = {}
        end = 0
        for name, array in arrays.items():
            if array.dtype not in _DTYPES:
                raise ValueError(f"array {name}: {array.dtype} is none of {', '.join(map(str, _DTYPES))}")
            place = Place(-(-end // ALIGNMENT) * ALIGNMENT, array.dtype, array.shape)
            places[name], end = place, place.stop
        buffer = torch.empty(end, dtype=torch.uint8, pin_memory=pin_memory and torch.accelerator.is_available())
        memory = buffer.numpy()
        for name, place in places.items():
            memory[place.start : place.stop] = np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8)
        return PackedTensors(buffer, places)

    def __getitem__(self, name: str) -> Tensor:
        place = self.places[name]
        return self.buffer[place.start : place.stop].view(_DTYPES[place.dtype]).view(place.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def device(self) -> torch.device:
        return self.buffer.device

    def pin_memory(self) -> PackedTensors:
        """The same in pinned memory; itself where there is no device to pin it for."""
        return replace(self, buffer=self.buffer.pin_memory()) if torch.accelerator.is_available() else self

    def to(self, device: torch.device | str, *, non_blocking: bool = True) -> PackedTensors:
        """The same on a device. Returns at once from pinned memory; use it on the stream that is current here."""
        return replace(self, buffer=self.buffer.to(device, non_blocking=non_blocking))

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """Keep the memory until this stream has done what it was given: for use on another stream than the copy's."""
        self.buffer.record_stream(stream)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Views of the buffer; copied back first, and waited for, if it is on a device."""
        memory = self.buffer.cpu().numpy()
        return {
            name: memory[place.start : place.stop].view(place.dtype).reshape(place.shape)
            for name, place in self.places.items()
        }

    def __repr__(self) -> str:
        return f"PackedTensors({len(self)} tensors, {self.buffer.numel()} bytes, {self.device})"
