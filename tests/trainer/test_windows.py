"""Windows of shared buffers in training: looked up once, and equal to rows that are stored whole."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.windows import PartialIkjt
from streams.minibatch import MiniBatch
from tests.trainer.sample import model_of, optimizer_of, random_batch, schema_of
from trainer import host_threads
from trainer.config import ModelConfig, Pooling
from trainer.jagged_ops import FbgemmOps, PlainOps
from trainer.model import build_model
from trainer.parity import run_parity
from trainer.tensors import to_tensors
from trainer.window_rows import WindowRows, window_sums_of

SCHEMA = schema_of()


def partial_batch(seed: int, num: int = 40, buffers: int = 3) -> MiniBatch:
    """A batch whose histories slide by one over a few buffers, an empty window of each among them, in no order."""
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, num)
    sizes = rng.integers(0, 10, buffers)
    offsets = offsets_of(sizes)
    windows = []
    for p in range(buffers):
        length = int(rng.integers(1, 7))
        windows += [(offsets[p], min(length, sizes[p]))] if sizes[p] else []
        windows += [(offsets[p] + begin, length) for begin in range(1, sizes[p] - length + 1)]
        if length < sizes[p]:
            windows.append((offsets[p] + rng.integers(sizes[p]), 0))
    windows = windows or [(0, 0)]
    rows = rng.permutation(np.asarray(windows, np.int32))
    inverse = rng.permutation(np.concatenate([np.arange(len(rows)), rng.integers(0, len(rows), num - len(rows))]))
    values = rng.integers(-(2**62), 2**62, int(offsets[-1]))
    history = PartialIkjt(
        "history",
        {"history": Jagged(values, offsets)},
        rows[:, 0].copy(),
        rows[:, 1].copy(),
        inverse.astype(np.int32),
    )
    return replace(batch, groups=(*batch.groups[:-1], history))


def exact(batch: MiniBatch) -> MiniBatch:
    return replace(batch, groups=tuple(group.to_exact() for group in batch.groups))


def model(history: Pooling) -> ModelConfig:
    """Rows as long as they come: a limit would move the windows, which is the transforms' own matter."""
    made = model_of(history=history)
    return replace(made, attention=replace(made.attention, max_length=12))


@pytest.mark.parametrize("history", ["attention", "target", "max", "sum", "mean"])
def test_windows_change_nothing_however_a_history_is_pooled(history: Pooling) -> None:
    report = run_parity(
        [partial_batch(seed) for seed in range(24)], SCHEMA, model(history), optimizer_of("adam"), seed=1, every=6
    )
    assert report.ok, report.reasons
    assert report.oracle_max_diff < 1e-9


@pytest.mark.parametrize("history", ["attention", "target", "max", "sum"])
def test_every_id_of_a_buffer_is_looked_up_once(history: Pooling) -> None:
    batch = partial_batch(6, buffers=8)
    ours, whole = (to_tensors([each], SCHEMA, model(history)) for each in (batch, exact(batch)))
    spared = int(batch.groups[-1].to_exact().features["history"].offsets[-1]) - batch.groups[-1].num_values
    assert whole.counts.ids - ours.counts.ids == spared > 20
    assert whole.counts.ids_expanded == ours.counts.ids_expanded


@pytest.mark.parametrize("history", ["attention", "target", "max", "mean"])
def test_mini_batches_of_both_forms_make_one_step(history: Pooling) -> None:
    parts = [
        partial_batch(1),
        exact(partial_batch(2)),
        partial_batch(3, buffers=1),
        random_batch(np.random.default_rng(4)),
    ]
    trained = build_model(SCHEMA, model(history), optimizer_of(), 1)
    alone = torch.cat([trained.predict(to_tensors([exact(part)], SCHEMA, model(history))) for part in parts])
    torch.testing.assert_close(trained.predict(to_tensors(parts, SCHEMA, model(history))), alone)


def rows_of(seed: int, buffers: int, longest: int) -> WindowRows:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, longest + 1, buffers)
    offsets = offsets_of(sizes)
    p = rng.integers(0, buffers, 3 * buffers)
    begin = (rng.random(len(p)) * (sizes[p] + 1)).astype(np.int64)
    lengths = (rng.random(len(p)) * (sizes[p] - begin + 1)).astype(np.int64)
    return WindowRows(np.zeros(int(offsets[-1]), np.int64), offsets, offsets[p] + begin, lengths)


def sums_and_gradient(rows: WindowRows, values_VD: Tensor, ops: FbgemmOps | PlainOps) -> tuple[Tensor, Tensor]:
    leaf_VD = values_VD.clone().requires_grad_()
    sums_UD = ops.window_sums(leaf_VD, window_sums_of(rows))
    weight_UD = torch.linspace(-1, 1, sums_UD.numel(), dtype=sums_UD.dtype).view(sums_UD.shape)
    (grad_VD,) = torch.autograd.grad(sums_UD, leaf_VD, weight_UD)
    return sums_UD.detach(), grad_VD


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), buffers=st.integers(1, 6), longest=st.integers(0, 20), threads=st.integers(1, 3))
def test_sums_of_windows_and_their_gradients_are_those_of_rows(
    seed: int, buffers: int, longest: int, threads: int
) -> None:
    rows = rows_of(seed, buffers, longest)
    values_VD = torch.randn(len(rows.values), 4, generator=torch.Generator().manual_seed(seed))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    with patch.object(host_threads, "_FEW", 0):
        ours = sums_and_gradient(rows, values_VD, FbgemmOps())
    torch.set_num_threads(before)
    for mine, theirs in zip(ours, sums_and_gradient(rows, values_VD.double(), PlainOps()), strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-6, atol=1e-6)


def test_short_windows_of_long_buffers_keep_their_digits() -> None:
    """A running sum in float32 loses them: it is a thousand times what a window holds."""
    rows = WindowRows(np.zeros(50_000, np.int64), np.array([0, 50_000]), np.arange(49_900, 49_990), np.full(90, 10))
    values_VD = torch.rand(50_000, 4, generator=torch.Generator().manual_seed(0)) + 1
    ours, _ = sums_and_gradient(rows, values_VD, FbgemmOps())
    theirs, _ = sums_and_gradient(rows, values_VD.double(), PlainOps())
    assert float(((ours - theirs).abs() / theirs).max()) < 1e-7
