"""What runs in a directory of services.

Owns: the states and asking for them.
Never: starts, stops or cleans anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from infra.services.fleet import ASK_MS, Fleet
from infra.services.kafka import brokers_that_answer
from infra.services.process import ServiceProcess
from infra.services.record import Kind
from infra.services.redis import answers_ping

State = Literal["running", "silent", "crashed", "stopped"]


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One service."""

    name: str
    state: State
    """`running` answers, `silent` runs without answering, `crashed` ended by itself, `stopped` was stopped."""
    address: str
    pid: int | None
    rss_bytes: int
    log_file: str


@dataclass(frozen=True, slots=True)
class StackStatus:
    """All services of a directory; `kind` is None and there are none where nothing was ever started."""

    directory: str
    kind: Kind | None
    kafka: str
    redis: str
    services: tuple[ServiceStatus, ...]

    @property
    def up(self) -> bool:
        """Whether everything answers."""
        return bool(self.services) and all(service.state == "running" for service in self.services)


def status_of(fleet: Fleet) -> tuple[ServiceStatus, ...]:
    """The state of every service behind the record."""
    brokers = [
        _state(process, f"127.0.0.1:{broker.client_port}", fleet) for broker, process in fleet.broker_processes()
    ]
    return (*brokers, _state(fleet.redis.process, fleet.redis.url, fleet))


def _state(process: ServiceProcess, address: str, fleet: Fleet) -> ServiceStatus:
    identity = process.identity()
    state: State
    if identity is None:
        state = "crashed" if process.crashed() else "stopped"
    elif process.name == "redis":
        state = "running" if answers_ping(fleet.redis_url) else "silent"
    else:
        state = "running" if brokers_that_answer(address, ASK_MS) else "silent"
    pid, rss_bytes = (identity.pid, identity.rss_bytes()) if identity else (None, 0)
    return ServiceStatus(process.name, state, address, pid, rss_bytes, str(process.log_file))
