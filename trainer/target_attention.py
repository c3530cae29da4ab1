"""Target attention: every candidate asks the history of its user, whose keys and values are computed once.

Owns the projections, the bias of a place, and the blocks of queries by keys (`attention_plan`). Keys and values stay
jagged until a block needs them, and no candidate's history is ever copied: that is what expanding before attention
costs. Rows come newest first, so place j is position j from the end.

Shape suffixes: B samples, Q queries, V ids, R rows of a bucket, N queries of a row, L keys of a row, H heads,
D embedding dim, C = D / H.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from trainer.attention_plan import AttentionPlan, Bucket
from trainer.jagged_ops import JaggedOps
from trainer.window_rows import Windows

_NOWHERE: Final = -1e9
"""Score of a place behind a row: its weight is exactly 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """A plan as tensors."""

    buckets: tuple[Bucket, ...]
    cuts: tuple[tuple[int, int], ...]
    """Of each bucket, its first key and its first query; one entry more at the end."""
    key_offsets: Tensor
    query_offsets: Tensor
    sample_of_query_Q: Tensor
    query_of_sample_B: Tensor
    """Q where a sample asks nothing, because its history is empty."""
    place_Q: Tensor
    """Of each query among the padded ones of its bucket."""

    def to(self, device: torch.device) -> Asking:
        names = ("key_offsets", "query_offsets", "sample_of_query_Q", "query_of_sample_B", "place_Q")
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in names})


def asking_of(plan: AttentionPlan, num_samples: int) -> Asking:
    """The tensors of a plan for a batch of so many samples."""
    samples, offsets = plan.sample_of_query, plan.query_offsets
    query_of_sample = np.full(num_samples, len(samples), np.int64)
    query_of_sample[samples] = np.arange(len(samples))
    place = np.zeros(len(samples), np.int64)
    for bucket in plan.buckets:
        first, last = offsets[bucket.first_row], offsets[bucket.last_row]
        row = np.repeat(
            np.arange(bucket.last_row - bucket.first_row), np.diff(offsets[bucket.first_row : bucket.last_row + 1])
        )
        within = np.arange(last - first) - (offsets[bucket.first_row : bucket.last_row] - first)[row]
        place[first:last] = row * bucket.most_queries + within
    ends = [*(bucket.first_row for bucket in plan.buckets), len(plan.row_K)]
    return Asking(
        plan.buckets,
        tuple((int(plan.key_offsets[row]), int(offsets[row])) for row in ends),
        torch.from_numpy(plan.key_offsets),
        torch.from_numpy(offsets),
        torch.from_numpy(samples),
        torch.from_numpy(query_of_sample),
        torch.from_numpy(place),
    )


class TargetAttention(nn.Module):
    """[V, D] embedded histories and [B, D] candidates to [B, D]: what of its history speaks of the candidate.

    Queries start at zero and values as the rows themselves, so it starts as a mean and learns whom to ask. A sample
    with an empty history gets exactly 0, and sends no gradient.
    """

    def __init__(self, dim: int, heads: int, max_length: int) -> None:
        super().__init__()
        self._heads = heads
        self.query = nn.Linear(dim, dim)
        # A bias of keys would move all scores of a query alike, and change nothing.
        self.keys_values = nn.Linear(dim, 2 * dim, bias=False)
        self.place_HL = nn.Parameter(torch.zeros(heads, max_length))
        nn.init.zeros_(self.query.weight)
        nn.init.zeros_(self.query.bias)
        with torch.no_grad():
            self.keys_values.weight[dim:].zero_()

    def forward(
        self,
        history_VD: Tensor,
        candidate_BD: Tensor,
        asking: Asking,
        ops: JaggedOps,
        windows: Windows | None = None,
    ) -> Tensor:
        """`windows`: where the history is of buffers, whose keys and values all windows of them share."""
        if not asking.buckets:
            return torch.zeros_like(candidate_BD)
        query_QD = self.query(candidate_BD).index_select(0, asking.sample_of_query_Q)
        key_VD, change_VD = self.keys_values(history_VD).chunk(2, dim=1)
        both_VE = torch.cat([key_VD, history_VD + change_VD], dim=1)
        if windows is not None:
            assert windows.places is not None
            both_VE = ops.expand(both_VE, windows.places)
        answers = [
            self._bucket(both_VE[start[0] : stop[0]], query_QD[start[1] : stop[1]], bucket, start, asking, ops)
            for bucket, start, stop in zip(asking.buckets, asking.cuts[:-1], asking.cuts[1:], strict=True)
        ]
        nothing_1D = candidate_BD.new_zeros(1, candidate_BD.shape[1])
        return torch.cat([*answers, nothing_1D]).index_select(0, asking.query_of_sample_B)

    def _bucket(
        self,
        both_VE: Tensor,
        query_QD: Tensor,
        bucket: Bucket,
        start: tuple[int, int],
        asking: Asking,
        ops: JaggedOps,
    ) -> Tensor:
        """[queries of the bucket, D], in their order."""
        rows = slice(bucket.first_row, bucket.last_row + 1)
        num_rows, longest, most = bucket.last_row - bucket.first_row, bucket.longest, bucket.most_queries
        key_offsets_R1 = asking.key_offsets[rows] - start[0]
        both_RLE = ops.to_padded(both_VE, key_offsets_R1, longest)
        query_RND = ops.to_padded(query_QD, asking.query_offsets[rows] - start[1], most)
        split = (num_rows, -1, self._heads, query_QD.shape[1] // self._heads)
        key_RHLC, value_RHLC = (half.reshape(split).transpose(1, 2) for half in both_RLE.chunk(2, dim=2))
        query_RHNC = query_RND.view(split).transpose(1, 2)
        inside_RL = torch.arange(longest, device=both_VE.device) < key_offsets_R1.diff()[:, None]
        scores_RHNL = query_RHNC @ key_RHLC.transpose(2, 3) * split[3] ** -0.5 + self.place_HL[:, None, :longest]
        weights_RHNL = scores_RHNL.masked_fill(~inside_RL[:, None, None, :], _NOWHERE).softmax(dim=3)
        answer_RNHC = (weights_RHNL @ value_RHLC).transpose(1, 2)
        places_Q = asking.place_Q[start[1] : start[1] + len(query_QD)]
        flat_PD: Tensor = answer_RNHC.reshape(num_rows * most, -1)
        return flat_PD.index_select(0, places_Q)
