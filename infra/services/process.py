"""One detached child process, found again by a later command.

Owns: starting, recognising and stopping it. The pid file is the child's own `/proc/PID/stat` and the machine's boot
id, written by the child before it turns into the service, so a parent that dies in between leaves no unknown child;
pid, start time and boot id together never match a recycled pid.
Never: knows what the service is or whether it answers.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from infra.clock import Clock, Deadline
from infra.services.errors import ServiceError, ServiceStartError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
POLL_MS = 20
KILL_WAIT_MS = 5_000
# The rename makes the pid file appear whole or not at all.
RECORD_AND_BECOME = 'cat "/proc/$$/stat" "$1" >"$0.new" && mv "$0.new" "$0" && cd "$2" && shift 2 && exec "$@"'
# In /proc/PID/stat, counted after the command's closing bracket (the command itself may hold spaces).
STATE_FIELD, START_FIELD, RSS_FIELD = 0, 19, 21


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process this is, for as long as the machine has run and after."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pid file. Raises ValueError or IndexError on anything else."""
        stat, boot_id = text.strip().splitlines()
        return cls(int(stat.split(maxsplit=1)[0]), int(_stat_fields(stat)[START_FIELD]), boot_id)

    def is_alive(self) -> bool:
        """Whether this very process still holds anything.

        A zombie does not, once all its threads are gone: the first thread of a killed JVM is one while others still
        hold its ports and file locks.
        """
        fields = self._live_fields()
        if fields is None:
            return False
        return fields[STATE_FIELD] not in {"Z", "X"} or self._num_threads() > 1

    def rss_bytes(self) -> int:
        """Resident memory, 0 for a process that is gone."""
        fields = self._live_fields()
        return int(fields[RSS_FIELD]) * os.sysconf("SC_PAGE_SIZE") if fields else 0

    def _num_threads(self) -> int:
        try:
            return len(list(Path(f"/proc/{self.pid}/task").iterdir()))
        except (FileNotFoundError, ProcessLookupError):
            return 0

    def _live_fields(self) -> list[str] | None:
        try:
            fields = _stat_fields(Path(f"/proc/{self.pid}/stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            return None
        same = int(fields[START_FIELD]) == self.start_ticks and BOOT_ID.read_text().strip() == self.boot_id
        return fields if same else None


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """A named service of one directory: `run/NAME.pid` and `logs/NAME.log` in it."""

    name: str
    directory: Path
    clock: Clock = field(default_factory=Clock)

    @property
    def pid_file(self) -> Path:
        """Where the running child is recorded."""
        return self.directory / "run" / f"{self.name}.pid"

    @property
    def log_file(self) -> Path:
        """Where everything it prints goes."""
        return self.directory / "logs" / f"{self.name}.log"

    def identity(self) -> Identity | None:
        """The child that runs now, or None."""
        try:
            identity = Identity.parse(self.pid_file.read_text())
        except (FileNotFoundError, ValueError, IndexError):
            return None
        return identity if identity.is_alive() else None

    def crashed(self) -> bool:
        """Whether it ended without anybody having stopped it."""
        return self.pid_file.exists() and self.identity() is None

    def start(self, command: Sequence[str], env: Mapping[str, str], *, tied: bool) -> Child:
        """Start `command` in its own session. A tied child is killed by the kernel when this thread's process ends."""
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self.log_file.touch()
        offset = self.log_file.stat().st_size
        tie = ["setpriv", "--pdeathsig", "KILL", "--"] if tied else []
        pid = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", RECORD_AND_BECOME, str(self.pid_file), str(BOOT_ID), str(self.directory), *tie, *command],
            dict(env),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log_file), os.O_WRONLY | os.O_APPEND, 0),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        return Child(self, pid, offset)

    def stop(self, grace_ms: int) -> bool:
        """SIGTERM, then SIGKILL after `grace_ms`. False if it was not running."""
        identity = self.identity()
        if identity is None:
            return False
        if not self._end(identity, signal.SIGTERM, grace_ms):
            self._kill(identity)
        self.pid_file.unlink(missing_ok=True)
        return True

    def ask_to_stop(self) -> None:
        """SIGTERM without waiting; `stop` waits."""
        if (identity := self.identity()) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(identity.pid, signal.SIGTERM)

    def forget(self) -> None:
        """Nothing is left of a child that has ended: neither its pid file nor, if it was ours, its exit status."""
        with contextlib.suppress(FileNotFoundError, ValueError, IndexError, ChildProcessError):
            os.waitpid(Identity.parse(self.pid_file.read_text()).pid, os.WNOHANG)
        self.pid_file.unlink(missing_ok=True)

    def kill(self) -> bool:
        """SIGKILL at once, as a crash would, pid file and all. False if it was not running."""
        identity = self.identity()
        if identity is None:
            return False
        self._kill(identity)
        return True

    def log_tail(self, lines: int = 15, since: int = 0) -> str:
        """The last lines of the log, at most those after byte `since`."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(since, size - 64 * 1024))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _kill(self, identity: Identity) -> None:
        if not self._end(identity, signal.SIGKILL, KILL_WAIT_MS):
            raise ServiceError(
                f"{self.name} (pid {identity.pid}) does not end, not even by SIGKILL",
                remedy="it hangs in the kernel, most likely on a disk; look at `dmesg` and try again",
            )

    def _end(self, identity: Identity, number: signal.Signals, wait_ms: int) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, number)
        deadline = Deadline.after(self.clock, wait_ms)
        while identity.is_alive():
            if deadline.passed:
                return False
            self.clock.sleep(POLL_MS)
        with contextlib.suppress(ChildProcessError):  # Ours only if this process started it.
            os.waitpid(identity.pid, os.WNOHANG)
        return True


@dataclass(frozen=True, slots=True)
class Child:
    """A process that was just started and has not answered yet."""

    service: ServiceProcess
    pid: int
    log_offset: int

    def wait_ready(self, answers: Callable[[], bool], deadline: Deadline) -> None:
        """Return when `answers()` holds; raise with the log's last lines if the child ends or the deadline passes."""
        while not answers():
            code = self._exit_code()
            if code is not None:
                raise self._failed(f"{self.service.name} ended with code {code} before it answered")
            if deadline.passed:
                raise self._failed(f"{self.service.name} runs but did not answer in time")
            self.service.clock.sleep(POLL_MS)

    def wait_done(self, deadline: Deadline) -> None:
        """Return when the child ended with 0; raise with the log's last lines otherwise."""
        while (code := self._exit_code()) is None and not deadline.passed:
            self.service.clock.sleep(POLL_MS)
        if code is None:
            self.service.kill()
            raise self._failed(f"{self.service.name} did not finish in time")
        self.service.pid_file.unlink(missing_ok=True)
        if code != 0:
            raise self._failed(f"{self.service.name} ended with code {code}")

    def log_since_start(self) -> str:
        """What this child has printed, its last lines."""
        return self.service.log_tail(lines=200, since=self.log_offset)

    def _exit_code(self) -> int | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def _failed(self, what: str) -> ServiceStartError:
        return ServiceStartError(
            what,
            log_tail=self.service.log_tail(since=self.log_offset),
            remedy=f"the whole log is {self.service.log_file}; correct what it names and run `recd up` again",
        )


def _stat_fields(stat: str) -> list[str]:
    return stat.rpartition(")")[2].split()
