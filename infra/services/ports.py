"""Free TCP ports on the loopback address.

Owns: choosing them. The choice starts at a place given by the directory, below the kernel's ephemeral range, so that
two directories rarely meet and no outgoing connection takes a recorded port between two runs.
Never: keeps a port open; who uses one must still expect it to be taken.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import Collection
from pathlib import Path

from infra.services.errors import ServiceError

LOOPBACK = "127.0.0.1"
FIRST_PORT, END_PORT = 20_000, 32_000


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: a connection that lingers after a restart does not make its port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Whether somebody accepts connections on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def choose(directory: Path, taken: Collection[int]) -> int:
    """A free port for `directory` that is not in `taken`."""
    span = END_PORT - FIRST_PORT
    start = zlib.crc32(str(directory.resolve()).encode()) % span
    for step in range(span):
        port = FIRST_PORT + (start + step) % span
        if port not in taken and is_free(port):
            return port
    raise ServiceError(
        f"no free port between {FIRST_PORT} and {END_PORT} on {LOOPBACK}",
        remedy="stop what listens there (`ss -ltn` lists it) and try again",
    )
