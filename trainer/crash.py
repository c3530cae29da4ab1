"""Named places where a test lets the process die. In production every call does nothing.

A site is a promise to have been tested: what is on the disk there is enough to go on from.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final, Literal

from streams.errors import ConfigError

Site = Literal[
    "ledger_written",
    "step_done",
    "save_begun",
    "file_written",
    "files_written",
    "manifest_written",
    "renamed",
    "pruned",
    "committed",
]
SITES: Final[tuple[Site, ...]] = (
    "ledger_written",
    "step_done",
    "save_begun",
    "file_written",
    "files_written",
    "manifest_written",
    "renamed",
    "pruned",
    "committed",
)
Crash = Callable[[Site], None]


def never(site: Site) -> None:
    """Live on."""


def kill_at(spec: str) -> Crash:
    """`SITE:N`: SIGKILL this process when it passes the site for the Nth time."""
    name, _, count = spec.partition(":")
    if name not in SITES or not (count or "1").isdigit():
        raise ConfigError(f"--crash-at {spec!r}: give SITE:N with SITE one of {', '.join(SITES)}")
    left = int(count or 1)

    def crash(site: Site) -> None:
        nonlocal left
        if site == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return crash
