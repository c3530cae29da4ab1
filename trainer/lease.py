"""The lineage lease: one writer per checkpoint directory, with an epoch that rises with every new holder.

Owns `lease.lock` (held by flock as long as the process lives) and `lease.json` (the epoch, replaced in one act).
flock keeps a second trainer out on one machine; the epoch keeps an old one out where flock does not reach: what
is written under an older epoch is refused by `check`. Never touches ledger or checkpoints.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import msgspec

from streams.errors import ConfigError, InvariantError
from trainer.durable import replace_synced

_RETRY_MS: Final = 50


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of `lease.json`."""

    epoch: int
    pid: int
    taken_ms: int
    """Wall clock; for people only."""
    version: int = 1


class StaleLeaseError(InvariantError):
    """Another trainer holds a newer epoch of this lineage: whatever we write now is not part of it."""


class Lease:
    """A held lease. Released by `release`, and by the end of the process."""

    def __init__(self, directory: Path, epoch: int, descriptor: int) -> None:
        self._directory = directory
        self.epoch = epoch
        self._descriptor = descriptor

    @classmethod
    def take(cls, directory: Path, now_ms: int, wait_ms: int, pause: Callable[[int], None]) -> Self:
        """Become the one writer, or ConfigError when another one stays for `wait_ms`. `pause` sleeps that many ms."""
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / "lease.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for _ in range(wait_ms // _RETRY_MS + 1):
            if _locked(descriptor):
                return cls(directory, _raise_epoch(directory, now_ms), descriptor)
            pause(_RETRY_MS)
        os.close(descriptor)
        holder = current(directory)
        raise ConfigError(
            f"another trainer (process {holder.pid if holder else 'unknown'}) writes to {directory}; "
            "stop it, or give this one its own checkpoint.directory"
        )

    def check(self) -> None:
        """Raise StaleLeaseError unless ours is the newest epoch."""
        found = current(self._directory)
        if found is None or found.epoch != self.epoch:
            raise StaleLeaseError(
                f"this trainer holds epoch {self.epoch} of {self._directory}, but epoch "
                f"{found.epoch if found else 'none'} is current; another trainer took over, this one must stop"
            )

    def release(self) -> None:
        """Let the next trainer in. The epoch stays."""
        os.close(self._descriptor)


def current(directory: Path) -> LeaseRecord | None:
    """The newest holder, alive or not; None where there was none yet."""
    path = directory / "lease.json"
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=LeaseRecord)
    except msgspec.MsgspecError as error:
        raise InvariantError(
            f"{path} is damaged ({error}); write the highest epoch of the manifests into it"
        ) from error


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _raise_epoch(directory: Path, now_ms: int) -> int:
    before = current(directory)
    record = LeaseRecord(epoch=before.epoch + 1 if before else 1, pid=os.getpid(), taken_ms=now_ms)
    replace_synced(directory / "lease.json", msgspec.json.encode(record))
    return record.epoch
