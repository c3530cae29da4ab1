"""The demo's own processes: started, watched, started again when something killed them.

A child that a signal killed is started again, counted and told: recovery is what the system is for. A child that ends
by itself with an error is not: its last log lines and what to do are the demo's error.

Owns: the children of one run. Never: knows what they compute.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from infra.clock import Clock
from infra.demo.outputs import last_words
from infra.services.process import Child, ServiceProcess
from streams.errors import RetryableError

MAX_RESTARTS: Final = 20
STOP_MS: Final = 15_000


class ChildFailedError(RetryableError):
    """A process of the demo ended by itself; the message holds its last log lines and what to do."""


@dataclass(slots=True)
class Supervised:
    """One `recd` command that runs as a process of its own, for as long as the supervisor looks after it."""

    process: ServiceProcess
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    told: Callable[[str], None]
    restarts: int = 0
    exit_code: int | None = None
    _child: Child | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """As logs and errors call it."""
        return self.process.name

    @property
    def done(self) -> bool:
        """Whether it ended well."""
        return self.exit_code == 0

    def start(self) -> None:
        """Start it. It dies with this process, whatever happens to this process."""
        self.exit_code = None
        command = [sys.executable, "-m", "infra.cli", *self.arguments]
        self._child = self.process.start(command, self.environ, tied=True)

    def check(self) -> None:
        """See whether it still runs; start it again if a signal killed it; raise if it failed."""
        if self._child is None or self.exit_code is not None:
            return
        pid, status = os.waitpid(self._child.pid, os.WNOHANG)
        if not pid:
            return
        code = os.waitstatus_to_exitcode(status)
        if code < 0 and self.restarts < MAX_RESTARTS:
            self.restarts += 1
            self.told(f"{self.name} was killed by signal {-code}; starting it again (restart {self.restarts})")
            self.start()
            return
        self.exit_code = code
        self.process.pid_file.unlink(missing_ok=True)
        if code != 0:
            raise ChildFailedError(
                f"{self.name} ended with exit code {code}. Its last lines:\n{last_words(self.output())}\n"
                f"what to do: correct what they name and run the demo again; the whole log is {self.process.log_file}"
            )

    def output(self) -> list[str]:
        """Everything it printed, line by line, all its lives together."""
        return self.process.log_file.read_text(encoding="utf-8", errors="replace").splitlines()


class Supervisor:
    """All children of a run, under one directory."""

    def __init__(self, directory: Path, clock: Clock, told: Callable[[str], None]) -> None:
        self._directory = directory.absolute()
        self._clock = clock
        self._told = told
        self._environ = dict(os.environ) | {"PYTHONUNBUFFERED": "1"}
        self.children: list[Supervised] = []

    def start(self, name: str, arguments: Sequence[str]) -> Supervised:
        """Start `recd ARGUMENTS` under this name."""
        process = ServiceProcess(name, self._directory, self._clock)
        child = Supervised(process, tuple(arguments), self._environ, self._told)
        self.children.append(child)
        child.start()
        return child

    def check(self) -> None:
        """Look after every child once."""
        for child in self.children:
            child.check()

    @property
    def done(self) -> bool:
        """Whether every child ended well."""
        return all(child.done for child in self.children)

    @property
    def restarts(self) -> dict[str, int]:
        """How often each child was started again."""
        return {child.name: child.restarts for child in self.children}

    def stop(self) -> None:
        """End what still runs: ask all at once, then wait for each."""
        for child in self.children:
            child.process.ask_to_stop()
        for child in self.children:
            child.process.stop(STOP_MS)
