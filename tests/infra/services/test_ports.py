"""Ports: chosen from below the ephemeral range, never a taken one."""

from __future__ import annotations

import socket
from pathlib import Path

from infra.services import ports


def test_the_same_directory_starts_at_the_same_port_and_passes_over_taken_ones(tmp_path: Path) -> None:
    first = ports.choose(tmp_path, ())
    assert ports.FIRST_PORT <= first < ports.END_PORT
    with socket.create_server((ports.LOOPBACK, first)):
        assert not ports.is_free(first)
        assert ports.answers(first)
        second = ports.choose(tmp_path, ())
        assert second != first
        assert ports.choose(tmp_path, {second}) not in {first, second}
    assert not ports.answers(first)


def test_the_range_lies_below_the_ports_of_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert lowest >= ports.END_PORT
