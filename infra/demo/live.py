"""The part of a demo in which its processes run.

Owns: starting sessionizer, trainer and ingest, looking after them until all have ended well, and noticing that
nothing moves any more. However it ends, no process is left.
Never: reads what they made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.clock import Clock, Deadline
from infra.config import Config
from infra.demo.inputs import DemoInput
from infra.demo.outputs import last_words
from infra.demo.paths import DemoPaths
from infra.demo.progress import Progress
from infra.demo.screen import Screen
from infra.demo.supervisor import Supervised, Supervisor
from streams.errors import RetryableError

POLL_MS: Final = 250
STALL_MS: Final = 120_000
"""Nothing moved for so long: something hangs."""


@dataclass(frozen=True, slots=True)
class Live:
    """What was seen and timed while the processes ran."""

    progress: Progress
    ingest: Supervised
    sessionizer: Supervised
    trainer: Supervised
    wall_ms: int
    """From the start of the ingest to the last process's end."""
    restarts: Mapping[str, int]

    @property
    def work_ms(self) -> int:
        """From the last moment before the first event was read to the last process's end."""
        idle = [reading.wall_ms for reading in self.progress.readings if reading.events == 0 and reading.trained == 0]
        return self.wall_ms - max(idle, default=0)


def run_processes(
    config: Config, chosen: DemoInput, paths: DemoPaths, clock: Clock, screen: Screen, rate: float | None = None
) -> Live:
    """Start the processes and look after them until all have ended well; `rate` is in events a second."""
    supervisor = Supervisor(paths.run, clock, screen.say)
    common = ["--config", str(paths.config), "--json"]
    progress = Progress(
        clock,
        sessionizer=f"http://{config.metrics.host}:{config.metrics.sessionizer_port}/metrics",
        trainer=f"http://{config.metrics.host}:{config.metrics.trainer_port}/metrics",
    )
    try:
        sessionizer = supervisor.start("sessionizer", ["sessionizer", *common, "--exit-at-end"])
        trainer = supervisor.start("trainer", ["trainer", *common, "--exit-at-end"])
        screen.say("sessionizer and trainer are starting")
        _wait_until_up(supervisor, progress, clock)
        begun_ms = clock.monotonic_ms()
        pace = [] if rate is None else ["--rate", str(rate)]
        ingest = supervisor.start("ingest", ["ingest", str(chosen.file), *common, *pace, "--end"])
        _watch(supervisor, progress, clock, screen)
        wall_ms = clock.monotonic_ms() - begun_ms
    finally:
        supervisor.stop()
    return Live(progress, ingest, sessionizer, trainer, wall_ms, supervisor.restarts)


def _wait_until_up(supervisor: Supervisor, progress: Progress, clock: Clock) -> None:
    """Until both processes serve metrics: what is timed from here on is work, not imports."""
    late = Deadline.after(clock, STALL_MS)
    while not progress.both_answer():
        supervisor.check()
        if late.passed:
            raise RetryableError(f"not up after {STALL_MS // 1000} s.\n{_tails(supervisor)}")
        clock.sleep(POLL_MS)


def _watch(supervisor: Supervisor, progress: Progress, clock: Clock, screen: Screen) -> None:
    stalled = Deadline.after(clock, STALL_MS)
    seen: tuple[int, ...] = ()
    while not supervisor.done:
        supervisor.check()
        reading = progress.read()
        screen.show(reading, progress.events_per_s())
        moved = (reading.events, reading.emitted, reading.trained, *(child.done for child in supervisor.children))
        if moved != seen:
            seen, stalled = moved, Deadline.after(clock, STALL_MS)
        if stalled.passed:
            raise RetryableError(f"nothing has moved for {STALL_MS // 1000} s.\n{_tails(supervisor)}")
        clock.sleep(POLL_MS)


def _tails(supervisor: Supervisor) -> str:
    waiting = [child for child in supervisor.children if not child.done]
    tails = [
        f"last lines of {child.name} ({child.process.log_file}):\n{last_words(child.output())}" for child in waiting
    ]
    return "\n".join(tails)
