"""The local services of one directory: Kafka (or its in-memory stand-in) and Redis, brought up and down together.

    with nothing to import but this:   Stack(Path(".recd")).up() -> Addresses;   .status();   .down()

Owns: the order of starting and stopping, what is remembered between commands, and cleaning up after a crash.
Never: creates topics or reads configuration; users with services of their own do not come here at all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra.clock import Clock, Deadline
from infra.services import lock, record
from infra.services.errors import MissingProgramError, PortTakenError, StackMismatchError
from infra.services.fleet import Fleet
from infra.services.memory_broker import CANNOT_SHOW
from infra.services.plan import fresh_record, with_free_ports
from infra.services.process import ServiceProcess
from infra.services.record import Kind, StackRecord
from infra.services.status import ServiceStatus, StackStatus, status_of
from infra.services.toolchain import Toolchain

LOCK_MS = 120_000
PORT_ATTEMPTS = 3
CLUSTER_SIZES = (1, 3)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where clients connect."""

    kafka: str
    """Kafka's bootstrap servers: `host:port`, comma separated."""
    redis: str
    """A URL: `redis://host:port/0`."""
    kind: Kind
    """`kafka`, or `memory` for the stand-in."""


class Stack:
    """The services of one directory."""

    def __init__(
        self,
        directory: Path | str,
        *,
        clock: Clock | None = None,
        toolchain: Toolchain | None = None,
        report: Callable[[str], None] | None = None,
        tied: bool = False,
    ) -> None:
        """`report` hears one line per step. Services of a `tied` stack die with the thread that starts them."""
        self.directory = Path(directory).absolute()
        self._clock = clock or Clock()
        self._toolchain = toolchain or Toolchain.of_process()
        self._report = report or _say_nothing
        self._tied = tied

    def up(self, brokers: int | None = None, kind: Kind | Literal["auto"] = "auto") -> Addresses:
        """Start what does not run and wait until everything answers.

        `brokers` defaults to what the directory holds, else 1. `kind` "auto" is Kafka, or the stand-in in a directory
        that never held Kafka on a machine that lacks it. If anything fails, what this call started is stopped again.
        """
        with self._locked():
            chosen = self._choose(brokers, kind)
            for attempt in range(1, PORT_ATTEMPTS + 1):
                chosen = with_free_ports(chosen, self._fleet(chosen), self._report)
                record.save(self._record_file, chosen)
                try:
                    self._fleet(chosen).start(self._report)
                    break
                except PortTakenError:
                    if attempt == PORT_ATTEMPTS:
                        raise
            return self._addresses(chosen)

    def down(self) -> tuple[str, ...]:
        """Stop everything that runs, in good order; the names of what was stopped. Data stays."""
        if not self.directory.exists():
            return ()
        with self._locked():
            known = record.load(self._record_file)
            stopped = self._fleet(known).stop(self._report) if known else []
            # Whatever else was recorded here: a format that was interrupted, a stand-in from before Kafka came.
            for pid_file in sorted(self.directory.glob("run/*.pid")):
                process = ServiceProcess(pid_file.stem, self.directory, self._clock)
                if process.stop(grace_ms=5_000):
                    stopped.append(process.name)
                pid_file.unlink(missing_ok=True)
            return tuple(stopped)

    def status(self) -> StackStatus:
        """What runs and answers, without touching anything."""
        known = record.load(self._record_file)
        if known is None:
            return StackStatus(str(self.directory), None, "", "", ())
        addresses = self._addresses(known)
        services: tuple[ServiceStatus, ...] = status_of(self._fleet(known))
        return StackStatus(str(self.directory), known.kind, addresses.kafka, addresses.redis, services)

    def process(self, name: str) -> ServiceProcess:
        """One service by name (`kafka-1`, `redis`): to kill it in a test, or to read its log."""
        return ServiceProcess(name, self.directory, self._clock)

    @property
    def _record_file(self) -> Path:
        return self.directory / "stack.json"

    def _locked(self) -> AbstractContextManager[None]:
        return lock.held(self.directory / "lock", Deadline.after(self._clock, LOCK_MS))

    def _fleet(self, known: StackRecord) -> Fleet:
        return Fleet(known, self.directory, self._toolchain, self._clock, self._tied)

    def _addresses(self, known: StackRecord) -> Addresses:
        fleet = self._fleet(known)
        return Addresses(fleet.bootstrap, fleet.redis_url, known.kind)

    def _choose(self, brokers: int | None, kind: Kind | Literal["auto"]) -> StackRecord:
        """The record to start from: the directory's own, or a fresh one."""
        if brokers is not None and brokers not in CLUSTER_SIZES:
            raise StackMismatchError(
                f"a cluster of {brokers} brokers is not one of {CLUSTER_SIZES}",
                remedy="use 1, or 3 for a replicated cluster",
            )
        known = record.load(self._record_file)
        if known is not None and known.kind == "kafka":
            self._check_same(known, brokers, kind)
            self._toolchain.kafka()  # Its data is here: a missing JDK is an error, never a silent stand-in.
            return known
        wanted = self._wanted_kind(brokers, kind, known)
        if known is not None and wanted == "memory":
            return known
        if known is not None and self._fleet(known).memory_broker.process.identity() is not None:
            raise StackMismatchError(
                f"the in-memory stand-in runs in {self.directory}",
                remedy=f"`recd down --dir {self.directory}` first; what it holds is lost then",
            )
        return fresh_record(self.directory, wanted, brokers or 1, self._toolchain, known)

    def _wanted_kind(self, brokers: int | None, kind: Kind | Literal["auto"], known: StackRecord | None) -> Kind:
        if kind == "memory" and (brokers or 1) > 1:
            raise StackMismatchError("the in-memory stand-in is one broker", remedy="leave --brokers away")
        if kind != "auto":
            wanted: Kind = kind
        elif known is not None and self._fleet(known).memory_broker.process.identity() is not None:
            wanted = "memory"  # It runs, and somebody may be using it.
        else:
            wanted = self._kafka_or_stand_in(brokers or 1)
        if wanted == "kafka":
            self._toolchain.kafka()
        else:
            self._report(CANNOT_SHOW)
        return wanted

    def _kafka_or_stand_in(self, brokers: int) -> Kind:
        try:
            self._toolchain.kafka()
        except MissingProgramError as missing:
            if brokers > 1:
                raise
            self._report(f"{missing.what}; {missing.remedy}")
            return "memory"
        return "kafka"

    def _check_same(self, known: StackRecord, brokers: int | None, kind: Kind | Literal["auto"]) -> None:
        if kind == "memory":
            asked = "the in-memory stand-in"
        elif brokers is not None and brokers != len(known.brokers):
            asked = f"{brokers} broker(s)"
        else:
            return
        raise StackMismatchError(
            f"{self.directory} holds a Kafka cluster of {len(known.brokers)} broker(s), and {asked} was asked for",
            remedy="leave the option away, choose another --dir, or `recd down` and delete the directory with its data",
        )


def _say_nothing(_line: str) -> None:
    """For callers who do not listen."""
