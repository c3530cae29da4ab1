"""Which checkpoints may go, by a person's wish: never the newest that verifies. Looks only; `store` removes.

A trainer prunes its own directory after each save; this is for a directory that nobody trains in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainer.checkpoint.load import newest
from trainer.checkpoint.store import left_overs, prunable


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What a removal would do."""

    doomed: tuple[Path, ...]
    num_bytes: int
    kept: Path | None
    """The newest that verifies: a restart begins there. None where there is none; then nothing whole is doomed."""


def pruning(directory: Path, keep: int) -> Pruning:
    """All but the newest `keep`; one that is needed because none of those verifies stays too."""
    best = newest(directory).checkpoint
    doomed = prunable(directory, keep) if best is not None else left_overs(directory)
    kept = best.path if best is not None else None
    doomed = [path for path in doomed if path != kept]
    return Pruning(doomed=tuple(doomed), num_bytes=sum(map(_size, doomed)), kept=kept)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
