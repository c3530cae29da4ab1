"""One contract for both implementations of the jagged operations, empty input included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainer.jagged_ops import Expansion, FbgemmOps, JaggedOps, PlainOps


@pytest.fixture(params=[FbgemmOps, PlainOps])
def ops(request: pytest.FixtureRequest) -> JaggedOps:
    import fbgemm_gpu  # noqa: F401 -- registers the kernels

    made: JaggedOps = request.param()
    return made


def offsets_of(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)


def expansion_of(inverse: list[int], num_rows: int) -> Expansion:
    inverse_B = torch.tensor(inverse, dtype=torch.int64)
    order_B = inverse_B.argsort(stable=True)
    return Expansion(inverse_B, order_B, offsets_of(inverse_B.bincount(minlength=num_rows).tolist()))


@pytest.mark.parametrize("lengths", [[2, 0, 3], [0, 0, 4], [1], [5, 5]])
@pytest.mark.parametrize("longest", [0, 1])
def test_each_row_is_followed_by_zeros(ops: JaggedOps, lengths: list[int], longest: int) -> None:
    longest += max(lengths)
    values_VD = torch.randn(sum(lengths), 4)
    padded = ops.to_padded(values_VD, offsets_of(lengths), longest)
    assert padded.shape == (len(lengths), longest, 4)
    for row, (start, length) in enumerate(zip(offsets_of(lengths).tolist(), lengths, strict=False)):
        assert torch.equal(padded[row, :length], values_VD[start : start + length])
        assert not padded[row, length:].any()


def test_the_gradient_of_padding_is_dropped_and_that_of_values_kept(ops: JaggedOps) -> None:
    values_VD = torch.randn(5, 4, requires_grad=True)
    weight = torch.randn(3, 3, 4)
    (ops.to_padded(values_VD, offsets_of([2, 0, 3]), 3) * weight).sum().backward()  # type: ignore[no-untyped-call]
    assert values_VD.grad is not None
    assert torch.equal(values_VD.grad, torch.cat([weight[0, :2], weight[2, :3]]))


@pytest.mark.parametrize("num_rows", [0, 1, 4])
@pytest.mark.parametrize("longest", [0, 3])
def test_rows_that_are_all_empty_pad_to_zeros(ops: JaggedOps, num_rows: int, longest: int) -> None:
    padded = ops.to_padded(torch.empty(0, 4), offsets_of([0] * num_rows), longest)
    assert padded.shape == (num_rows, longest, 4)
    assert not padded.any()


@pytest.mark.parametrize(
    ("inverse", "num_rows"),
    [([0, 0, 0, 0], 1), ([0, 1, 2], 3), ([0, 1, 0, 2, 1, 0], 3), ([2, 1, 0], 3), ([], 0)],
)
def test_expansion_takes_rows_and_its_gradient_sums_samples(ops: JaggedOps, inverse: list[int], num_rows: int) -> None:
    rows_UX = torch.randn(num_rows, 6, dtype=torch.float64, requires_grad=True)
    grad_BX = torch.randn(len(inverse), 6, dtype=torch.float64)
    expanded = ops.expand(rows_UX, expansion_of(inverse, num_rows))
    assert torch.equal(expanded, rows_UX[inverse])
    (grad,) = torch.autograd.grad(expanded, rows_UX, grad_BX)
    summed = [sum((grad_BX[b] for b, u in enumerate(inverse) if u == row), torch.zeros(6)) for row in range(num_rows)]
    torch.testing.assert_close(grad, torch.stack(summed) if summed else torch.empty(0, 6, dtype=torch.float64))


def test_the_gradient_of_a_hot_row_is_summed_in_sample_order(ops: JaggedOps) -> None:
    """10,000 samples of one row: the same bits on every run."""
    rows_UX = torch.randn(2, 4, requires_grad=True)
    inverse = [0] * 5_000 + [1] + [0] * 5_000
    grad_BX = torch.randn(len(inverse), 4)
    grads = [torch.autograd.grad(ops.expand(rows_UX, expansion_of(inverse, 2)), rows_UX, grad_BX)[0] for _ in range(3)]
    assert torch.equal(grads[0], grads[1])
    assert torch.equal(grads[0], grads[2])


def test_padding_works_in_float64() -> None:
    values_VD = torch.randn(3, 4, dtype=torch.float64)
    padded = [ops.to_padded(values_VD, offsets_of([1, 0, 2]), 2) for ops in (FbgemmOps(), PlainOps())]
    assert torch.equal(padded[0], padded[1])
