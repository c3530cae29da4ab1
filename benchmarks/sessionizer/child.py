"""A program run to its end on one core: what it printed, and what it used.

Owns how CPU time and memory of another process are read: from the kernel, which counts all its threads, at its end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

from infra.clock import Clock

_POLL_MS: Final = 100
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A program that ended well."""

    cpu_s: float
    """User and system time of all its threads."""
    wall_s: float
    peak_bytes: int
    """Most memory that was in RAM at once."""
    said: dict[str, Any]
    """The last line of its output, a JSON object."""


def run(module: str, words: Sequence[str], *, core: int, look: Callable[[int], None] | None = None) -> Used:
    """Run `python -m module words…` on one core. `look` is called with its process id, ten times a second.

    Raises RuntimeError with what it said on stderr if it fails.
    """
    clock = Clock()
    begun_ms = clock.monotonic_ms()
    # Into files: nobody reads while it runs, and a pipe would fill up.
    with TemporaryFile() as out, TemporaryFile() as errors:
        process = subprocess.Popen([sys.executable, "-m", module, *words], stdout=out, stderr=errors, cwd=_ROOT)
        os.sched_setaffinity(process.pid, {core})
        peak_bytes = 0
        try:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                # What the kernel tells at the end may be the peak of the process that started it.
                peak_bytes = max(peak_bytes, most_resident_bytes(process.pid))
                if look is not None:
                    look(process.pid)
                clock.sleep(_POLL_MS)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(ended[1])
        said, complained = (_text(file) for file in (out, errors))
    if process.returncode:
        raise RuntimeError(f"{module} failed with {process.returncode}:\n{complained[-3_000:]}")
    return Used(
        cpu_s=ended[2].ru_utime + ended[2].ru_stime,
        wall_s=(clock.monotonic_ms() - begun_ms) / 1000,
        peak_bytes=peak_bytes,
        said=json.loads(said.splitlines()[-1]),
    )


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def cpu_s(pid: int) -> float:
    """CPU time of a running process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Memory of a running process that is in RAM now."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def most_resident_bytes(pid: int) -> int:
    """Most memory of a running process that was in RAM at once; 0 where it has just ended."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    peaks = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
    return 1024 * sum(peaks)
