"""The manifest: a readable file that makes a directory a checkpoint, and the contract of its format. Pure.

Layout of a checkpoint, version 1: `step-<12 digits>/` with `manifest.json` and safetensors files. The manifest is
written last; a directory without one, or whose files differ from it in size or SHA-256, is no checkpoint. A tensor
is one or more pieces of consecutive rows (first dimension), each under the tensor's name in a file of its own, so
that another number of ranks reads row ranges. No pickle anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from streams.errors import InvariantError
from trainer.account import Account
from trainer.ledger import Position, TopicIdentity

VERSION: Final = 1
NAME: Final = "manifest.json"


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Rows `start` (inclusive) to `stop` (exclusive) of a tensor."""

    file: str
    start: int
    stop: int


class StoredTensor(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor and where its rows are."""

    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, as it must be found."""

    name: str
    num_bytes: int
    sha256: str


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the lineage stands at a step: all that is not a tensor. The offsets are those of trained batches."""

    step: int
    epoch: int
    """Lease under which the checkpoint was written."""
    created_ms: int
    """Wall clock; for people only."""
    watermark_ms: int
    """Largest watermark trained on; -1 before the first."""
    topic: TopicIdentity
    positions: dict[int, Position]
    """Partition to the *next* offset and sequence to train. Partitions never trained on are absent."""
    account: Account
    seed: int
    """With the step it decides all later random numbers: the whole RNG state."""
    schema_fingerprint: str
    """`EventSchema.fingerprint()` in hexadecimal."""
    config: dict[str, Any]
    """What must be equal for the weights to mean the same: model and optimizer."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    progress: Progress
    tensors: dict[str, StoredTensor]
    files: tuple[StoredFile, ...]
    version: int = VERSION

    @property
    def num_bytes(self) -> int:
        """Size of all tensor files."""
        return sum(file.num_bytes for file in self.files)

    def encode(self) -> bytes:
        """The text of the file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def decode(data: bytes) -> Manifest:
    """A manifest back; InvariantError on anything else and on another version."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version != VERSION:
            raise InvariantError(f"the manifest has version {version}, this recd reads {VERSION}: update recd")
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise InvariantError(f"the manifest is damaged: {error}") from error


def differences(stored: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> list[str]:
    """Every key in which two configurations differ, as `key: was A, is B`."""
    found: list[str] = []
    for key in sorted(stored.keys() | now.keys()):
        was, is_ = stored.get(key), now.get(key)
        if isinstance(was, Mapping) and isinstance(is_, Mapping):
            found += differences(was, is_, f"{path}{key}.")
        elif was != is_:
            found.append(f"{path}{key}: was {was!r}, is {is_!r}")
    return found


class _Versioned(msgspec.Struct):
    version: int
