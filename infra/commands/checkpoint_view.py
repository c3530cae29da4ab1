"""What commands show of a checkpoint: a line of it, or all of it. Reads only; prints nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from streams.errors import InvariantError
from trainer.checkpoint.load import open_checkpoint, read_manifest
from trainer.checkpoint.store import step_of


def listed(path: Path, *, verify: bool = False) -> dict[str, Any]:
    """One line of the list; `damage` says what is wrong."""
    line: dict[str, Any] = {"path": str(path), "step": step_of(path)}
    try:
        manifest = open_checkpoint(path).manifest if verify else read_manifest(path)
    except InvariantError as error:
        return line | {"damage": str(error)}
    progress = manifest.progress
    line |= {
        "epoch": progress.epoch,
        "samples": progress.account.samples,
        "created_ms": progress.created_ms,
        "num_bytes": manifest.num_bytes,
    }
    return line | {"verified": True} if verify else line


def whole(path: Path) -> dict[str, Any]:
    """Everything of one checkpoint but its tensors' values; InvariantError where it does not verify."""
    manifest = open_checkpoint(path).manifest
    return listed(path) | {
        "progress": msgspec.to_builtins(manifest.progress, str_keys=True),
        "files": msgspec.to_builtins(manifest.files),
        "tensors": {name: [tensor.dtype, *tensor.shape] for name, tensor in manifest.tensors.items()},
        "verified": True,
    }
