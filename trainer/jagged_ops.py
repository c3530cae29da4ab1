"""Jagged operations of the model, twice: by fbgemm, and in plain torch as the oracle and the fallback.

Owns padding and expansion to samples. Never looks ids up and never decides what to expand.

Shape suffixes: B samples, U unique rows, V values, D embedding dim, L padded length, X any trailing size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from trainer.window_sums import WindowSums, window_sums


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """Which unique row each sample uses, also sorted by row, so that a backward can sum segments.

    Sample b uses row `inverse_B[b]`; row u is used by samples `order_B[offsets_U1[u]:offsets_U1[u + 1]]`.
    """

    inverse_B: Tensor
    order_B: Tensor
    offsets_U1: Tensor

    def to(self, device: torch.device) -> Expansion:
        return Expansion(*(tensor.to(device, non_blocking=True) for tensor in self.tensors))

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.inverse_B, self.order_B, self.offsets_U1


class JaggedOps(Protocol):
    """What both implementations offer; empty rows, no rows and a longest row of 0 are legal everywhere."""

    def to_padded(self, values_VD: Tensor, offsets_U1: Tensor, longest: int) -> Tensor:
        """[V, D] jagged rows to [U, L, D] with L = longest; zeros behind each row."""

    def expand(self, rows_UX: Tensor, expansion: Expansion) -> Tensor:
        """[U, X] rows to [B, X] samples; the gradient of a row is the sum over its samples."""

    def window_sums(self, values_VD: Tensor, windows: WindowSums) -> Tensor:
        """[V, D] buffers to [U, D]: the sum of each window."""


class FbgemmOps:
    """fbgemm's kernel for padding; one gather forward and one segment sum backward for expansion."""

    def to_padded(self, values_VD: Tensor, offsets_U1: Tensor, longest: int) -> Tensor:
        if longest == 0 or len(values_VD) == 0:  # fbgemm's kernels have read out of bounds on empty input
            return values_VD.new_zeros(len(offsets_U1) - 1, longest, values_VD.shape[1])
        if values_VD.dtype == torch.float64:  # fbgemm has no such kernel, and parity asks for it
            return PlainOps().to_padded(values_VD, offsets_U1, longest)
        padded: Tensor = torch.ops.fbgemm.jagged_to_padded_dense(values_VD, [offsets_U1], [longest], 0.0)
        return padded

    def expand(self, rows_UX: Tensor, expansion: Expansion) -> Tensor:
        expanded: Tensor = _ExpandRows.apply(rows_UX, *expansion.tensors)
        return expanded

    def window_sums(self, values_VD: Tensor, windows: WindowSums) -> Tensor:
        if values_VD.device.type == "cpu" and values_VD.dtype == torch.float32:
            return window_sums(values_VD, windows)
        return PlainOps().window_sums(values_VD, windows)


class PlainOps:
    """The same in operations whose meaning and gradient torch itself defines."""

    def to_padded(self, values_VD: Tensor, offsets_U1: Tensor, longest: int) -> Tensor:
        starts_U, lengths_U = offsets_U1[:-1], offsets_U1.diff()
        column_L = torch.arange(longest, device=values_VD.device)
        inside_UL = column_L < lengths_U[:, None]
        behind = len(values_VD)  # the zero row that every place behind a row reads
        where_UL = torch.where(inside_UL, starts_U[:, None] + column_L, behind)
        return torch.cat([values_VD, values_VD.new_zeros(1, values_VD.shape[1])])[where_UL]

    def expand(self, rows_UX: Tensor, expansion: Expansion) -> Tensor:
        return rows_UX.index_select(0, expansion.inverse_B)

    def window_sums(self, values_VD: Tensor, windows: WindowSums) -> Tensor:
        length_U = windows.stop_U - windows.start_U
        row_W = torch.arange(len(length_U), device=values_VD.device).repeat_interleave(length_U)
        place_W = torch.arange(len(row_W), device=values_VD.device) + (windows.stop_U - length_U.cumsum(0))[row_W]
        sums_UD = values_VD.new_zeros(len(length_U), values_VD.shape[1])
        return sums_UD.index_add(0, row_W, values_VD.index_select(0, place_W))


class _Context(Protocol):
    """What torch hands to both halves of an autograd function."""

    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class _ExpandRows(torch.autograd.Function):
    """index_select whose backward sums each row's samples in a row of memory accesses, not by scattered atomics."""

    @staticmethod
    def forward(ctx: _Context, rows_UX: Tensor, inverse_B: Tensor, order_B: Tensor, offsets_U1: Tensor) -> Tensor:
        ctx.save_for_backward(order_B, offsets_U1)
        return rows_UX.index_select(0, inverse_B)

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        order_B, offsets_U1 = ctx.saved_tensors
        # A bag per row, of the samples that use it: gather and segment sum in one pass, in a fixed order.
        summed: Tensor = torch.nn.functional.embedding_bag(
            order_B, grads[0].contiguous(), offsets_U1, mode="sum", include_last_offset=True
        )
        return summed, None, None, None
