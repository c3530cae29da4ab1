"""Sessionizer workers over the audit's world, born in a tenth of a second.

Owns how such a process comes to be: forked from a server that has imported everything and compiled every kernel, so
that a hundred deaths cost minutes and not hours. Each worker is a process of its own; a SIGKILL hits it alone.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import msgspec

from infra.clock import Clock, Deadline
from infra.logging import configure
from sessionizer.config import JoinConfig
from sessionizer.job import run
from sessionizer.wiring import Job
from sessionizer.worker_config import WorkerConfig
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig
from streams.metrics import Silent
from tests.fault import crash_sites
from tests.fault.audit_world import BATCHES, JOIN, SCHEMA, SESSIONS
from tests.fault.crash_sites import Crash

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.fault.audit_warm"])


@dataclass(frozen=True, kw_only=True)
class Orders:
    """Everything that a worker is told."""

    kafka: KafkaConfig
    topics: TopicsConfig
    worker: WorkerConfig
    directory: Path
    fresh_ms: int = 0
    join: JoinConfig = JOIN
    crash: tuple[str, int] | None = None
    """A site of `crash_sites`, and which passing of it is the last thing that happens."""
    suppress: bool = True


@dataclass(frozen=True)
class Worker:
    """One process."""

    process: ForkServerProcess
    log: Path

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    @property
    def was_killed(self) -> bool:
        return self.process.exitcode == -signal.SIGKILL

    def send(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def wait(self, clock: Clock, timeout_ms: int) -> bool:
        """Whether it has ended by then."""
        deadline = Deadline.after(clock, timeout_ms)
        while self.alive and not deadline.passed:
            clock.sleep(10)
        return not self.alive


def start(orders: Orders, log: Path) -> Worker:
    """A worker that runs until its end marks, a signal, or its crash."""
    process = _SERVER.Process(target=_main, args=(orders, log), daemon=True)
    process.start()
    return Worker(process, log)


def _main(orders: Orders, log: Path) -> None:
    with log.open("a") as sink:
        os.dup2(sink.fileno(), sys.stdout.fileno())
        os.dup2(sink.fileno(), sys.stderr.fileno())
    configure("warning")
    crash_sites.install(Crash(*orders.crash) if orders.crash else None, suppress=orders.suppress)

    def tell(event: str, fields: Mapping[str, object]) -> None:
        sys.stderr.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stderr.flush()

    job = Job(
        kafka=orders.kafka,
        topics=orders.topics,
        schema=SCHEMA,
        session=SESSIONS,
        join=orders.join,
        batch=replace(BATCHES, fresh_ms=orders.fresh_ms),
        worker=orders.worker,
        reporter=Silent(),
        now_ms=Clock().now_ms,
        log=tell,
    )
    summary = run(job, directory=orders.directory, exit_at_end=True)
    tell("summary", asdict(summary) | {"account": msgspec.to_builtins(summary.account)})
