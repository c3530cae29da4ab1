"""The newest checkpoint that verifies, or one by name; refusals in words. Never changes anything on the disk.

A directory counts only if its manifest reads and every file has the size and SHA-256 that it names. A damaged one
is passed over with a warning that names it and says what is wrong, and the one before it is tried.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
import torch
from safetensors import safe_open
from torch import Tensor

from streams.errors import ConfigError, InvariantError
from trainer.checkpoint.manifest import NAME, Manifest, StoredFile, StoredTensor, decode, differences
from trainer.checkpoint.store import found, step_of

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Checkpoint:
    """A verified checkpoint."""

    path: Path
    manifest: Manifest

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor, whole, in host memory."""
        return {name: self._tensor(name, stored) for name, stored in self.manifest.tensors.items()}

    def _tensor(self, name: str, stored: StoredTensor) -> Tensor:
        parts = []
        for piece in stored.pieces:
            with safe_open(self.path / piece.file, framework="pt") as file:
                parts.append(file.get_tensor(name))
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        if tuple(whole.shape) != stored.shape:
            raise InvariantError(
                f"{self.path}: tensor {name} is {tuple(whole.shape)}, the manifest says {stored.shape}"
            )
        return whole


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Found:
    """What a directory holds."""

    checkpoint: Checkpoint | None
    """The newest that verifies; None where there is none."""
    damaged: tuple[Path, ...]
    """Newer ones that do not."""


def newest(directory: Path) -> Found:
    """Look for the newest checkpoint that verifies."""
    damaged: list[Path] = []
    for path in found(directory):
        try:
            return Found(checkpoint=open_checkpoint(path), damaged=tuple(damaged))
        except InvariantError as error:
            _LOG.warning("checkpoint_damaged", path=str(path), error=str(error), remedy="the one before it is used")
            damaged.append(path)
    return Found(checkpoint=None, damaged=tuple(damaged))


def at_step(directory: Path, step: int) -> Found:
    """The checkpoint of this step. ConfigError where there is none, InvariantError where it does not verify."""
    for path in found(directory):
        if step_of(path) == step:
            return Found(checkpoint=open_checkpoint(path), damaged=())
    known = ", ".join(str(step_of(path)) for path in found(directory)) or "none"
    raise ConfigError(f"{directory} holds no checkpoint of step {step}; those it holds are of steps: {known}")


def open_checkpoint(path: Path) -> Checkpoint:
    """Verify one directory; InvariantError says what is wrong with it."""
    manifest = read_manifest(path)
    for file in manifest.files:
        _verify(path / file.name, file)
    return Checkpoint(path=path, manifest=manifest)


def read_manifest(path: Path) -> Manifest:
    """The manifest alone, unverified; InvariantError where there is none."""
    try:
        return decode((path / NAME).read_bytes())
    except OSError as error:
        raise InvariantError(f"{path} has no readable {NAME}: it was never completed") from error
    except InvariantError as error:
        error.add_note(f"in {path / NAME}")
        raise


def check_fits(manifest: Manifest, schema_fingerprint: str, config: Mapping[str, Any]) -> None:
    """Raise ConfigError that names every difference between the checkpoint and what is configured now."""
    progress = manifest.progress
    found_differences = differences(progress.config, config)
    if progress.schema_fingerprint != schema_fingerprint:
        found_differences.append(
            f"schema (event, labels, features, dense, histories, groups): fingerprint was "
            f"{progress.schema_fingerprint}, is {schema_fingerprint}"
        )
    if found_differences:
        raise ConfigError(
            f"the checkpoint of step {progress.step} was trained under another configuration: "
            + "; ".join(found_differences)
            + ". Restore these values, or name another checkpoint.directory to begin a new lineage"
        )


def _verify(path: Path, file: StoredFile) -> None:
    try:
        size = path.stat().st_size
        if size != file.num_bytes:
            raise InvariantError(f"{path} has {size} bytes, the manifest says {file.num_bytes}")
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InvariantError(f"{path} cannot be read: {error}") from error
    if digest != file.sha256:
        raise InvariantError(f"{path} is damaged: its SHA-256 is not the manifest's")
