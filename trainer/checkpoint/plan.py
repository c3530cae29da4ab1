"""Which rows of which tensor go into which file. Pure: shapes in, pieces out; reads no tensor and no disk."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from trainer.checkpoint.manifest import Piece, StoredTensor


def plan(state: Mapping[str, Tensor], shard_bytes: int) -> dict[str, StoredTensor]:
    """Pieces of every tensor, in the state's order; no file exceeds `shard_bytes` by more than one row."""
    tensors: dict[str, StoredTensor] = {}
    number, filled = 0, 0
    for name, tensor in state.items():
        num_rows = tensor.shape[0] if tensor.dim() else 1
        row_bytes = max(1, tensor.numel() * tensor.element_size() // max(1, num_rows))
        pieces: list[Piece] = []
        start = 0
        while start < num_rows or not pieces:
            if filled and filled + row_bytes > shard_bytes:
                number, filled = number + 1, 0
            stop = min(num_rows, start + max(1, (shard_bytes - filled) // row_bytes))
            pieces.append(Piece(file=file_name(number), start=start, stop=stop))
            filled += (stop - start) * row_bytes
            start = stop
        tensors[name] = StoredTensor(
            dtype=str(tensor.dtype).removeprefix("torch."), shape=tuple(tensor.shape), pieces=tuple(pieces)
        )
    return tensors


def by_file(tensors: Mapping[str, StoredTensor]) -> dict[str, dict[str, Piece]]:
    """File to tensor name to the piece in it."""
    files: dict[str, dict[str, Piece]] = {}
    for name, tensor in tensors.items():
        for piece in tensor.pieces:
            files.setdefault(piece.file, {})[name] = piece
    return files


def file_name(number: int) -> str:
    """Name of the file of this number."""
    return f"tensors-{number:05d}.safetensors"
