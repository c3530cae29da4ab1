"""One command at a time in a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.clock import Clock, Deadline
from infra.services import lock
from infra.services.errors import StackBusyError

CLOCK = Clock()


def test_the_second_waits_and_then_names_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock.held(path, Deadline.after(CLOCK, 0)):
        begun_ms = CLOCK.monotonic_ms()
        busy = pytest.raises(StackBusyError, match=rf"another command \(pid {os.getpid()}\) is at work")
        with busy, lock.held(path, Deadline.after(CLOCK, 120)):
            pass
        assert CLOCK.monotonic_ms() - begun_ms >= 120
    with lock.held(path, Deadline.after(CLOCK, 0)):
        pass
