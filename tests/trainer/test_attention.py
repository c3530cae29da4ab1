"""The history encoder: padding is invisible, positions count from the end, an empty row is exactly 0."""

from __future__ import annotations

import pytest
import torch

from trainer.attention import HistoryEncoder
from trainer.config import AttentionConfig, Readout


def encoder_of(readout: Readout = "mean", layers: int = 2) -> HistoryEncoder:
    """With every weight away from its initial zero."""
    torch.manual_seed(1)
    encoder = HistoryEncoder(8, AttentionConfig(heads=2, layers=layers, feedforward=16, max_length=6, readout=readout))
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return encoder.double()


@pytest.mark.parametrize("readout", ["mean", "last"])
def test_padding_does_not_change_a_row(readout: Readout) -> None:
    encoder = encoder_of(readout)
    row = torch.randn(3, 8, dtype=torch.float64)
    tight = encoder(row[None], torch.tensor([3]))
    padded = torch.full((2, 6, 8), 7.0, dtype=torch.float64)
    padded[0, :3] = row
    torch.testing.assert_close(encoder(padded, torch.tensor([3, 6]))[:1], tight)


@pytest.mark.parametrize("readout", ["mean", "last"])
def test_an_empty_row_is_exactly_zero_and_sends_no_gradient(readout: Readout) -> None:
    encoder = encoder_of(readout)
    padded = torch.randn(2, 4, 8, dtype=torch.float64, requires_grad=True)
    encoded = encoder(padded, torch.tensor([0, 4]))
    assert not encoded[0].any()
    encoded[0].sum().backward(retain_graph=True)
    assert padded.grad is not None
    assert not padded.grad.any()
    encoded.sum().backward()
    assert bool(padded.grad.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in encoder.parameters() if p.grad is not None)


@pytest.mark.parametrize(("num_rows", "longest"), [(4, 0), (0, 0), (0, 3), (4, 3)])
def test_a_batch_in_which_every_history_is_empty_gives_zeros(num_rows: int, longest: int) -> None:
    encoded = encoder_of()(torch.zeros(num_rows, longest, 8).double(), torch.zeros(num_rows, dtype=torch.int64))
    assert encoded.shape == (num_rows, 8)
    assert not encoded.any()


def test_a_fresh_encoder_is_a_mean() -> None:
    encoder = HistoryEncoder(8, AttentionConfig(max_length=6))
    padded = torch.randn(1, 5, 8)
    torch.testing.assert_close(encoder(padded, torch.tensor([3])), padded[:, :3].mean(1))


def test_a_fresh_encoder_with_readout_last_is_the_newest_row() -> None:
    encoder = HistoryEncoder(8, AttentionConfig(max_length=6, readout="last"))
    padded = torch.randn(1, 5, 8)
    assert torch.equal(encoder(padded, torch.tensor([3])), padded[:, 0])


def test_positions_count_from_the_end() -> None:
    """Rows come newest first, so an older id more leaves the position of all newer ones alone."""
    encoder = encoder_of("last", layers=1)
    torch.nn.init.zeros_(encoder.layers[0].project_out.weight)  # type: ignore[arg-type, union-attr]
    row = torch.randn(1, 6, 8, dtype=torch.float64)
    torch.testing.assert_close(encoder(row[:, :3], torch.tensor([3])), encoder(row[:, :4], torch.tensor([4])))


def test_the_order_of_ids_matters() -> None:
    encoder = encoder_of()
    row = torch.randn(1, 3, 8, dtype=torch.float64)
    assert not torch.allclose(encoder(row, torch.tensor([3])), encoder(row.flip(1), torch.tensor([3])))
