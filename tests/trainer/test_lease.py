"""One writer for a directory: a rising epoch, and older epochs refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import ConfigError, InvariantError
from trainer.lease import Lease, StaleLeaseError, current


def take(directory: Path, wait_ms: int = 0) -> Lease:
    return Lease.take(directory, 1_700_000_000_000, wait_ms, lambda _ms: None)


def test_each_holder_has_a_higher_epoch(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        lease = take(tmp_path)
        assert lease.epoch == epoch
        lease.check()
        lease.release()


def test_a_second_trainer_is_refused_while_the_first_one_lives(tmp_path: Path) -> None:
    first = take(tmp_path)
    with pytest.raises(ConfigError, match="another trainer"):
        take(tmp_path, wait_ms=200)
    first.check()


def test_the_second_one_waits_for_the_first_to_leave(tmp_path: Path) -> None:
    first = take(tmp_path)
    second = Lease.take(tmp_path, 0, 1_000, lambda _ms: first.release())
    assert second.epoch == 2


def test_an_older_epoch_is_refused_where_the_lock_did_not_reach(tmp_path: Path) -> None:
    first = take(tmp_path)
    (tmp_path / "lease.lock").unlink()  # As on a file system that another machine mounts without locks.
    take(tmp_path)
    with pytest.raises(StaleLeaseError, match=r"holds epoch 1 of .* but epoch 2 is current"):
        first.check()


def test_a_damaged_lease_is_never_taken_for_a_new_one(tmp_path: Path) -> None:
    take(tmp_path).release()
    (tmp_path / "lease.json").write_bytes(b"{")
    with pytest.raises(InvariantError, match="is damaged"):
        take(tmp_path)
    (tmp_path / "lease.json").unlink()
    assert current(tmp_path) is None
