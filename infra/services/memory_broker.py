"""The in-memory stand-in for Kafka, for machines without a JDK.

Owns: starting, stopping and saying what it cannot show.
Never: used by a test that proves anything about delivery: its end offsets, time lookups, transactions, compaction and
retention are wrong, and it forgets everything when it stops.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.clock import Clock, Deadline
from infra.services import ports
from infra.services.errors import PortTakenError, ServiceStartError
from infra.services.kafka import brokers_that_answer
from infra.services.process import Child, ServiceProcess

START_MS, STOP_MS = 15_000, 5_000
CANNOT_SHOW: Final = (
    "running on an in-memory stand-in for Kafka: it shows the flow, the counts and parity, but not restarts, "
    "retention, lookups by time or transactions, and it forgets everything when it stops"
)


@dataclass(frozen=True, slots=True)
class MemoryBroker:
    """The stand-in of one directory."""

    program: Path
    directory: Path
    port: int
    clock: Clock

    @property
    def address(self) -> str:
        """What a client connects to."""
        return f"{ports.LOOPBACK}:{self.port}"

    @property
    def process(self) -> ServiceProcess:
        """The broker's process, running or not."""
        return ServiceProcess("memory-broker", self.directory, self.clock)

    def start(self, *, tied: bool) -> Child:
        """Start it empty; the caller waits with `wait_ready`."""
        url = f"tcp://{self.address}"
        listen = ["--listener-url", url, "--advertised-listener-url", url]
        command = [str(self.program), "broker", "--storage-engine", "memory://recd/", "--cluster-id", "recd", *listen]
        return self.process.start(command, os.environ, tied=tied)

    def wait_ready(self, child: Child, deadline: Deadline) -> None:
        """Return when it answers a client. Raises PortTakenError if another port would help."""
        try:
            child.wait_ready(
                lambda: ports.answers(self.port) and brokers_that_answer(self.address, timeout_ms=1000) > 0, deadline
            )
        except ServiceStartError as error:
            if not ports.is_free(self.port):
                raise PortTakenError(error.what, log_tail=error.log_tail, remedy=error.remedy) from error
            raise

    def stop(self) -> bool:
        """Stop it. False if it was not running."""
        return self.process.stop(STOP_MS)
