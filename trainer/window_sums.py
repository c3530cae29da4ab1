"""Sums of windows of shared buffers, as differences of running sums that begin anew at every buffer.

A window costs two reads however long it is. The running sums are kept in float64: in float32, and over a whole batch,
their differences are off by 7e-4. The gradient goes the same way back: a window adds its own at its start and takes it
off at its end, and the running sum of that is the gradient of each id.

Shape suffixes: U windows, P buffers, V ids of all buffers, D embedding dim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streams.ikjt.kernels import compiled
from trainer.host_threads import in_parts

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
Layout = tuple[I64, I64, I64, I64, I64]
"""`WindowSums.tensors`."""
Kernel = Callable[[F32, F32, Layout, int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class WindowSums:
    """Windows in the order of their buffers: buffer p has the rows `order_U[windows_P1[p]:windows_P1[p + 1]]`."""

    start_U: Tensor
    stop_U: Tensor
    order_U: Tensor
    windows_P1: Tensor
    buffers_P1: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.start_U, self.stop_U, self.order_U, self.windows_P1, self.buffers_P1

    def to(self, device: torch.device) -> WindowSums:
        return WindowSums(*(tensor.to(device, non_blocking=True) for tensor in self.tensors))


def window_sums(values_VD: Tensor, windows: WindowSums) -> Tensor:
    """[U, D] of [V, D] on the host, in float32."""
    summed: Tensor = _WindowSums.apply(values_VD, *windows.tensors)
    return summed


class _Context(Protocol):
    num_values: int
    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class _WindowSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, values_VD: Tensor, *layout: Tensor) -> Tensor:
        ctx.save_for_backward(*layout)
        ctx.num_values = len(values_VD)
        sums_UD = torch.zeros(len(layout[0]), values_VD.shape[1])
        _run(_add_up, values_VD, sums_UD, layout)
        return sums_UD

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        layout = ctx.saved_tensors
        grad_VD = torch.zeros(ctx.num_values, grads[0].shape[1])
        _run(_give_back, grads[0], grad_VD, layout)
        return grad_VD, *(None for _ in layout)


def _run(kernel: Kernel, given: Tensor, into: Tensor, layout: tuple[Tensor, ...]) -> None:
    start_U, stop_U, order_U, windows_P1, buffers_P1 = (each.numpy() for each in layout)
    # Parts of about as many ids and windows each.
    work_P1 = buffers_P1 + windows_P1
    arrays = given.detach().contiguous().numpy(), into.numpy(), (start_U, stop_U, order_U, windows_P1, buffers_P1)
    in_parts(kernel, arrays, work_P1)


@compiled
def _add_up(values: F32, sums: F32, layout: Layout, first: int, last: int) -> None:
    """The windows of buffers `first` to `last`."""
    start, stop, order, windows, buffers = layout
    dim = values.shape[1]
    running = np.zeros((_longest(buffers, first, last) + 1, dim), np.float64)
    for p in range(first, last):
        begin = buffers[p]
        for v in range(begin, buffers[p + 1]):
            for d in range(dim):
                running[v - begin + 1, d] = running[v - begin, d] + values[v, d]
        for w in range(windows[p], windows[p + 1]):
            u = order[w]
            if stop[u] > start[u]:
                for d in range(dim):
                    sums[u, d] = running[stop[u] - begin, d] - running[start[u] - begin, d]


@compiled
def _give_back(grads: F32, into: F32, layout: Layout, first: int, last: int) -> None:
    """The gradients of the ids of buffers `first` to `last`."""
    start, stop, order, windows, buffers = layout
    dim = grads.shape[1]
    change = np.zeros((_longest(buffers, first, last) + 1, dim), np.float64)
    running = np.zeros(dim, np.float64)
    for p in range(first, last):
        begin, end = buffers[p], buffers[p + 1]
        change[: end - begin + 1] = 0
        running[:] = 0
        for w in range(windows[p], windows[p + 1]):
            u = order[w]
            if stop[u] > start[u]:
                for d in range(dim):
                    change[start[u] - begin, d] += grads[u, d]
                    change[stop[u] - begin, d] -= grads[u, d]
        for v in range(begin, end):
            for d in range(dim):
                running[d] += change[v - begin, d]
                into[v, d] = running[d]


@compiled
def _longest(buffers: I64, first: int, last: int) -> int:
    longest = 0
    for p in range(first, last):
        longest = max(longest, buffers[p + 1] - buffers[p])
    return longest
