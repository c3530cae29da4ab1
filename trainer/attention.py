"""Self-attention encoder over the rows of a sequence feature, computed on unique rows.

Owns positions, attention and readout. Rows come newest first, so place j is position j from the end: when a
history shifts by one, the same distance from now keeps the same position vector. Never expands to samples.

Shape suffixes: U unique rows, L padded length, H heads, D embedding dim, C = D / H.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainer.config import AttentionConfig


class HistoryEncoder(nn.Module):
    """[U, L, D] padded rows, newest first, to one vector each.

    The last projection of every residual branch starts at zero, so the encoder starts as a mean (or as the
    newest row) and learns what to attend to. An empty row gives exactly 0, forward and backward.
    """

    def __init__(self, dim: int, config: AttentionConfig) -> None:
        super().__init__()
        self._readout = config.readout
        self.position_LD = nn.Parameter(torch.zeros(config.max_length, dim))
        self.layers = nn.ModuleList(_Layer(dim, config.heads, config.feedforward) for _ in range(config.layers))

    def forward(self, padded_ULD: Tensor, lengths_U: Tensor) -> Tensor:
        num_rows, longest, dim = padded_ULD.shape
        if num_rows == 0 or longest == 0:
            return padded_ULD.new_zeros(num_rows, dim)
        inside_UL = torch.arange(longest, device=padded_ULD.device) < lengths_U[:, None]
        # A row without any key would be 0/0: an empty one attends to its padding, and the readout drops it.
        keys_UL = inside_UL | (lengths_U == 0)[:, None]
        x_ULD = padded_ULD + self.position_LD[:longest]
        for layer in self.layers:
            x_ULD = layer(x_ULD, keys_UL)
        x_ULD = x_ULD * inside_UL[:, :, None]
        if self._readout == "last":
            return x_ULD[:, 0]
        return x_ULD.sum(1) / lengths_U.clamp(min=1)[:, None]


class _Layer(nn.Module):
    """Pre-norm self-attention, then a feed-forward net, each added to its input."""

    def __init__(self, dim: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self._heads = heads
        self.norm_attention = nn.LayerNorm(dim)
        self.norm_feedforward = nn.LayerNorm(dim)
        self.project_in = nn.Linear(dim, 3 * dim)
        self.project_out = nn.Linear(dim, dim)
        self.widen = nn.Linear(dim, feedforward)
        self.narrow = nn.Linear(feedforward, dim)
        for last in (self.project_out, self.narrow):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, x_ULD: Tensor, keys_UL: Tensor) -> Tensor:
        num_rows, longest, dim = x_ULD.shape
        split = (num_rows, longest, 3, self._heads, dim // self._heads)
        query_UHLC, key_UHLC, value_UHLC = (
            self.project_in(self.norm_attention(x_ULD)).view(split).permute(2, 0, 3, 1, 4).unbind(0)
        )
        attended_UHLC = nn.functional.scaled_dot_product_attention(
            query_UHLC, key_UHLC, value_UHLC, attn_mask=keys_UL[:, None, None, :]
        )
        x_ULD = x_ULD + self.project_out(attended_UHLC.transpose(1, 2).reshape(x_ULD.shape))
        widened = torch.relu(self.widen(self.norm_feedforward(x_ULD)))
        narrowed: Tensor = self.narrow(widened)
        return x_ULD + narrowed
