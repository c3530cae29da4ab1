"""Bytes that must be on the disk: write and sync a file, sync a directory. Never decides what is written."""

from __future__ import annotations

import os
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    """Create or replace the file and wait until the disk has it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until the disk has the directory's entries: creations, renames and removals in it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_synced(path: Path, data: bytes) -> None:
    """Replace the file in one act: a reader sees the old bytes or the new ones."""
    partial = path.with_name(f".{path.name}.partial")
    write_synced(partial, data)
    partial.replace(path)
    sync_directory(path.parent)
