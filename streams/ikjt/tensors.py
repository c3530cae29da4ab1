"""Feature groups as tensors that move to a device together, and back. Needs torch; nothing of TorchRec.

Owns the tensor side of a group, in both forms: the same arrays under the same names, as views of one `packed` buffer.

    tensors = to_tensors(groups, pin_memory=True).to(device)
    user = tensors.groups[0]
    pooled = embed(user.rows["history"].values, user.rows["history"].offsets)[user.inverse]   # U rows looked up, B out

Shapes: B samples, U distinct rows, P buffers, V values, K dense columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from streams.ikjt.arrays import as_text, from_arrays, to_arrays
from streams.ikjt.layout import GroupLayout
from streams.ikjt.packed import PackedTensors
from streams.ikjt.windows import Group


@dataclass(frozen=True, slots=True, eq=False)
class JaggedTensors:
    """Row r is `values[offsets[r]:offsets[r + 1]]`."""

    values: Tensor
    """[V]."""
    offsets: Tensor
    """[R + 1] int64."""
    weights: Tensor | None
    """[V]."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorGroup:
    """One group. What its arrays mean is in `Ikjt` and `PartialIkjt`."""

    group: str
    rows: Mapping[str, JaggedTensors]
    """Key to U rows, or to P buffers where there are windows."""
    inverse: Tensor
    """[B] int32."""
    windows: tuple[Tensor, Tensor] | None
    """Start and length of each row, [U] int32; None in the exact form."""
    dense: Tensor | None
    """[U, K]."""
    dense_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupTensors:
    """The groups of one batch, on one device."""

    packed: PackedTensors
    layouts: tuple[GroupLayout, ...]

    @property
    def groups(self) -> tuple[TensorGroup, ...]:
        """Views of the buffer, in order."""
        return tuple(self._group(g) for g in range(len(self.layouts)))

    def pin_memory(self) -> GroupTensors:
        """As `PackedTensors.pin_memory`."""
        return replace(self, packed=self.packed.pin_memory())

    def to(self, device: torch.device | str, *, non_blocking: bool = True) -> GroupTensors:
        """As `PackedTensors.to`: one copy for all groups."""
        return replace(self, packed=self.packed.to(device, non_blocking=non_blocking))

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """As `PackedTensors.record_stream`."""
        self.packed.record_stream(stream)

    def to_groups(self) -> tuple[Group, ...]:
        """The groups in NumPy again; waits for the device. Raises ValueError if they are no longer valid."""
        arrays = self.packed.to_arrays()
        for g, layout in enumerate(self.layouts):
            arrays[f"{g}/group"] = as_text(layout.group)
            if layout.dense_names:
                arrays[f"{g}/dense_names"] = np.asarray(layout.dense_names)
        return from_arrays(arrays)

    def __repr__(self) -> str:
        names = ", ".join(layout.group for layout in self.layouts)
        return f"GroupTensors({names}; {self.packed.buffer.numel()} bytes on {self.packed.device})"

    def _group(self, g: int) -> TensorGroup:
        layout, packed = self.layouts[g], self.packed
        kind = "buffers" if layout.partial else "features"
        rows = {
            key: JaggedTensors(
                packed[f"{g}/{kind}/{key}/values"],
                packed[f"{g}/{kind}/{key}/offsets"],
                packed[f"{g}/{kind}/{key}/weights"] if form.weighted else None,
            )
            for key, form in layout.features.items()
        }
        return TensorGroup(
            layout.group,
            rows,
            packed[f"{g}/inverse"],
            (packed[f"{g}/start"], packed[f"{g}/length"]) if layout.partial else None,
            packed[f"{g}/dense"] if layout.dense_names else None,
            layout.dense_names,
        )


def to_tensors(groups: Sequence[Group], *, pin_memory: bool = False) -> GroupTensors:
    """The groups on the host, copied into one buffer; pinned at once if asked, and if there is a device."""
    arrays = {name: array for name, array in to_arrays(groups).items() if array.dtype.kind != "U"}
    return GroupTensors(PackedTensors.of(arrays, pin_memory=pin_memory), tuple(map(GroupLayout.of, groups)))
