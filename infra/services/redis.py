"""A Redis (or Valkey) server on the loopback address.

Owns: its settings and starting, stopping and asking it. Writes are appended to disk every second and nothing is ever
evicted: a full server refuses writes instead.
Never: knows what is stored in it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import redis

from infra.clock import Clock, Deadline
from infra.services import ports
from infra.services.errors import PortTakenError, ServiceStartError
from infra.services.process import Child, ServiceProcess

START_MS, STOP_MS = 30_000, 15_000
BIND_FAILURES = ("Address already in use", "Failed listening on port")
SETTINGS: Final = (
    f"bind {ports.LOOPBACK}",
    "protected-mode yes",
    "daemonize no",
    "tcp-backlog 128",
    "appendonly yes",
    "appendfsync everysec",
    "save 3600 1 300 1000",
    "maxmemory-policy noeviction",
)


@dataclass(frozen=True, slots=True)
class RedisServer:
    """The server of one directory."""

    program: Path
    directory: Path
    port: int
    clock: Clock

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"redis://{ports.LOOPBACK}:{self.port}/0"

    @property
    def process(self) -> ServiceProcess:
        """The server's process, running or not."""
        return ServiceProcess("redis", self.directory, self.clock)

    def start(self, *, tied: bool) -> Child:
        """Start it; the caller waits with `wait_ready`."""
        data = self.directory / "data" / "redis"
        data.mkdir(parents=True, exist_ok=True)
        config = self.directory / "etc" / "redis.conf"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text("\n".join([*SETTINGS, f"port {self.port}", f'dir "{data}"', ""]))
        return self.process.start([str(self.program), str(config)], os.environ, tied=tied)

    def wait_ready(self, child: Child, deadline: Deadline) -> None:
        """Return when it answers PING. Raises PortTakenError if another port would help."""
        try:
            child.wait_ready(lambda: answers_ping(self.url), deadline)
        except ServiceStartError as error:
            if any(sign in child.log_since_start() for sign in BIND_FAILURES):
                raise PortTakenError(error.what, log_tail=error.log_tail, remedy=error.remedy) from error
            raise

    def stop(self) -> bool:
        """Stop in good order. False if it was not running."""
        return self.process.stop(STOP_MS)


def answers_ping(url: str) -> bool:
    """Whether the server there is up and has its data loaded."""
    client = redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
