"""Row-wise Adagrad over the distinct rows of a step, each read, summed and written once.

Owns the loop and nothing else: arrays in, arrays changed in place. The sum of a row's gradients is in the order of its
bags, whatever the number of threads.

Shape suffixes: R rows of the arena, N bags, V ids, X distinct rows, D embedding dim.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import compiled

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@compiled
def update_rows(
    weight: F32,
    momentum: F32,
    grad: F32,
    uses: tuple[I64, I64, I32],
    rate: np.float32,
    eps: np.float32,
    first: int,
    last: int,
) -> None:
    """The distinct rows `first` up to `last`; a gradient of zero changes nothing.

    weight: [R, D]. momentum: [R], mean squared gradients, summed over all steps. grad: [N, D], of each bag's sum. uses:
    `rows_X`, `starts_X1` and `bag_V` of `RowUses`.
    """
    rows, starts, bags = uses
    dim = weight.shape[1]
    summed = np.empty(dim, np.float32)
    for x in range(first, last):
        summed[:] = grad[bags[starts[x]]]
        for k in range(starts[x] + 1, starts[x + 1]):
            bag = bags[k]
            for d in range(dim):
                summed[d] += grad[bag, d]
        # Four sums, so that they can be made at once; dim is a multiple of 4.
        s0 = s1 = s2 = s3 = np.float32(0)
        for d in range(0, dim, 4):
            s0 += summed[d] * summed[d]
            s1 += summed[d + 1] * summed[d + 1]
            s2 += summed[d + 2] * summed[d + 2]
            s3 += summed[d + 3] * summed[d + 3]
        row = rows[x]
        momentum[row] += ((s0 + s1) + (s2 + s3)) / np.float32(dim)
        step = rate / (np.sqrt(momentum[row]) + eps)
        for d in range(dim):
            weight[row, d] -= step * summed[d]
