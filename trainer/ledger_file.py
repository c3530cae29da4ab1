"""The ledger on disk: an append-only file of framed lines, in segments. Lines and their meaning are `ledger`.

Layout: `<directory>/<ordinal, 8 digits>-<its first step, 12 digits>.ledger`, each an 8-byte magic and then frames.
Only the last segment is written to; a full one is closed when a trained line is about to open the next. Nothing is
ever removed but a torn tail, which is kept beside its segment as `.torn`.

Fsync policy: every line is handed to the operating system before its step begins, in one write, so it survives
the death of the process at any instant. It is forced to the disk before each checkpoint's manifest (`sync`). A
power failure may thus lose lines of steps that no checkpoint holds yet; those steps are lost from the weights
too, and the restored trainer trains their mini-batches in live order instead.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Self

from streams.errors import InvariantError
from trainer.durable import replace_synced, sync_directory, write_synced
from trainer.ledger import Kind, LedgerDamageError, Line, decode, encode

MAGIC: Final = b"RECDLDG1"
SEGMENT_BYTES: Final = 64 * 1024 * 1024
_SUFFIX: Final = ".ledger"


class LedgerFile:
    """Appends lines. One at a time over a directory: the lease sees to that."""

    def __init__(self, directory: Path, descriptor: int, size: int, segment_bytes: int) -> None:
        self._directory = directory
        self._descriptor = descriptor
        self._size = size
        self._segment_bytes = segment_bytes

    @classmethod
    def open(cls, directory: Path, after: int, segment_bytes: int = SEGMENT_BYTES) -> tuple[Self, list[Line], int]:
        """A ledger ready to append to, its lines from step `after` on, and how many bytes of a torn tail were cut."""
        directory.mkdir(parents=True, exist_ok=True)
        lines, size = _read(directory, after)
        paths = segments(directory)
        if not paths:
            return cls(directory, *_create(directory, 1, after + 1), segment_bytes), lines, 0
        torn = _cut(paths[-1], size)
        descriptor = os.open(paths[-1], os.O_RDWR | os.O_CLOEXEC)
        size = os.lseek(descriptor, 0, os.SEEK_END)
        return cls(directory, descriptor, size, segment_bytes), lines, torn

    def append(self, line: Line) -> None:
        """Write one line, whole, before its step begins."""
        if self._size >= self._segment_bytes and line.kind is Kind.TRAINED:
            self._roll(line.step)
        frame = encode(line)
        written = os.write(self._descriptor, frame)
        if written != len(frame):
            # A full disk writes part of it. Take it back: a half line must stay the last thing in the file.
            os.ftruncate(self._descriptor, self._size)
            os.lseek(self._descriptor, self._size, os.SEEK_SET)
            raise OSError(f"{self._directory}: only {written} of {len(frame)} bytes were written; is the disk full?")
        self._size += written

    def sync(self) -> None:
        """Force every line to the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Force to the disk and close."""
        self.sync()
        os.close(self._descriptor)

    def _roll(self, step: int) -> None:
        self.close()
        self._descriptor, self._size = _create(self._directory, len(segments(self._directory)) + 1, step)


def segments(directory: Path) -> list[Path]:
    """Segment files, oldest first."""
    return sorted(directory.glob(f"*{_SUFFIX}"))


def read(directory: Path, after: int = 0) -> list[Line]:
    """The lines from step `after` on, without touching anything; a torn tail is left out. Safe beside a trainer."""
    return _read(directory, after)[0]


def _read(directory: Path, after: int) -> tuple[list[Line], int]:
    """The lines, and the length of the last segment without its torn tail."""
    lines: list[Line] = []
    size = 0
    for path in (paths := _needed(segments(directory), after)):
        data = path.read_bytes()
        is_last = path == paths[-1]
        if is_last and len(data) < len(MAGIC) and MAGIC.startswith(data):
            return lines, 0
        found, size = _decode(path, data)
        if not is_last and size != len(data):
            raise LedgerDamageError(f"{path} ends in a torn line, but a later segment exists; restore it from a backup")
        lines += found
    return lines, size


def _needed(paths: list[Path], after: int) -> list[Path]:
    """The segments that can hold live lines above step `after`.

    When a segment was opened with step f, the lineage before it held the steps below f; so with f <= after + 1
    nothing that is needed stands earlier.
    """
    for number in reversed(range(len(paths))):
        if int(paths[number].stem.partition("-")[2]) <= after + 1:
            return paths[number:]
    return paths


def _decode(path: Path, data: bytes) -> tuple[list[Line], int]:
    if not data.startswith(MAGIC):
        raise InvariantError(f"{path} does not begin with {MAGIC!r}; it is no ledger of recd, move it away")
    try:
        lines, size = decode(data[len(MAGIC) :])
    except LedgerDamageError as error:
        error.add_note(f"in {path}")
        raise
    return lines, len(MAGIC) + size


def _cut(path: Path, size: int) -> int:
    """Cut a torn tail off, keep it beside, and return its length."""
    data = path.read_bytes()
    torn = data[size:]
    if torn:
        write_synced(path.with_suffix(".torn"), torn)
    if torn or not size:
        # Without a size it died between creating the segment and writing its magic.
        replace_synced(path, data[:size] or MAGIC)
    return len(torn)


def _create(directory: Path, ordinal: int, step: int) -> tuple[int, int]:
    path = directory / f"{ordinal:08d}-{step:012d}{_SUFFIX}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    os.write(descriptor, MAGIC)
    os.fsync(descriptor)
    sync_directory(directory)
    return descriptor, len(MAGIC)
