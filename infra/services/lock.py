"""One command at a time in a directory.

Owns: an advisory lock that the kernel drops when its holder dies.
Never: kept by the services themselves, only while a command starts or stops them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.clock import Deadline
from infra.services.errors import StackBusyError

POLL_MS = 50


@contextmanager
def held(path: Path, deadline: Deadline) -> Iterator[None]:
    """Hold the lock file `path`, or raise StackBusyError when the deadline passes first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if deadline.passed:
                    file.seek(0)
                    raise StackBusyError(
                        f"another command (pid {file.read().strip() or 'unknown'}) is at work in {path.parent}",
                        remedy="wait for it to end, or end it, and try again",
                    ) from None
                deadline.clock.sleep(POLL_MS)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
