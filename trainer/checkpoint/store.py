"""A checkpoint onto the disk, and old ones off it.

Order of a write; a death between any two of these leaves the last good checkpoint the newest:
1. tensor files into `.partial-…`, each written and synced, hashed as written;
2. the lease is checked: an older epoch stops here;
3. the manifest into the same directory, synced, and the directory synced;
4. the directory renamed to `step-…` and its parent synced: from here on it is the newest checkpoint;
5. older ones beyond `keep` and left-overs of dead writers removed.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from safetensors.torch import save
from torch import Tensor

from trainer.checkpoint.manifest import NAME, Manifest, Piece, Progress, StoredFile
from trainer.checkpoint.plan import by_file, plan
from trainer.crash import Crash
from trainer.durable import sync_directory, write_synced

_PREFIX: Final = "step-"
_PARTIAL: Final = ".partial-"
_DAMAGED: Final = "damaged-"


def write(
    directory: Path,
    progress: Progress,
    state: Mapping[str, Tensor],
    shard_bytes: int,
    check_lease: Callable[[], None],
    crash: Crash,
) -> Manifest:
    """Write one checkpoint; when this returns it is complete, newest and durable."""
    crash("save_begun")
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f"{_PARTIAL}{progress.step:012d}-{progress.epoch}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    tensors = plan(state, shard_bytes)
    files = tuple(_write_file(partial / name, pieces, state, crash) for name, pieces in by_file(tensors).items())
    crash("files_written")
    check_lease()
    manifest = Manifest(progress=progress, tensors=tensors, files=files)
    write_synced(partial / NAME, manifest.encode())
    sync_directory(partial)
    crash("manifest_written")
    _rename(partial, directory / name_of(progress.step))
    crash("renamed")
    return manifest


def found(directory: Path) -> list[Path]:
    """Directories that look like checkpoints, newest first. Looks are no proof: `load` verifies."""
    return sorted(directory.glob(f"{_PREFIX}*"), key=step_of, reverse=True)


def name_of(step: int) -> str:
    """Name of the directory of a step."""
    return f"{_PREFIX}{step:012d}"


def step_of(path: Path) -> int:
    """Step in the name of a directory; -1 where there is none."""
    number = path.name.removeprefix(_PREFIX)
    return int(number) if number.isdigit() else -1


def set_aside(path: Path) -> None:
    """Rename a damaged or abandoned checkpoint, so that it is kept for a person but never considered again."""
    target = path.with_name(_DAMAGED + path.name)
    shutil.rmtree(target, ignore_errors=True)
    path.rename(target)
    sync_directory(path.parent)


def prune(directory: Path, keep: int) -> list[Path]:
    """Remove all but the newest `keep`, set-aside ones older than those, and what dead writers left."""
    doomed = prunable(directory, keep)
    remove(doomed)
    return doomed


def prunable(directory: Path, keep: int) -> list[Path]:
    """What `prune` removes."""
    paths = found(directory)
    doomed = paths[keep:] + left_overs(directory)
    if paths[:keep]:
        oldest = step_of(paths[:keep][-1])
        aside = directory.glob(f"{_DAMAGED}{_PREFIX}*")
        doomed += [path for path in aside if step_of(path.with_name(path.name.removeprefix(_DAMAGED))) < oldest]
    return doomed


def left_overs(directory: Path) -> list[Path]:
    """What dead writers left."""
    return list(directory.glob(f"{_PARTIAL}*"))


def remove(doomed: Iterable[Path]) -> None:
    """Remove directories; one that is half removed does not look whole."""
    for path in doomed:
        # The manifest goes first: a half-removed directory must not look whole.
        (path / NAME).unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)


def _write_file(path: Path, pieces: Mapping[str, Piece], state: Mapping[str, Tensor], crash: Crash) -> StoredFile:
    data = save({name: _rows(state[name], piece) for name, piece in pieces.items()})
    write_synced(path, data)
    crash("file_written")
    return StoredFile(name=path.name, num_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _rows(tensor: Tensor, piece: Piece) -> Tensor:
    return tensor[piece.start : piece.stop] if tensor.dim() else tensor


def _rename(partial: Path, target: Path) -> None:
    if target.exists():
        # Only a checkpoint of an abandoned or damaged past can have our step: it must not stand in the way.
        set_aside(target)
    partial.rename(target)
    sync_directory(target.parent)
