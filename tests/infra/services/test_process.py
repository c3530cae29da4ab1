"""A detached child is found again, stopped for certain, and never mistaken for another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra.clock import Clock, Deadline
from infra.services import ports
from infra.services.errors import ServiceStartError
from infra.services.process import BOOT_ID, Identity, ServiceProcess

CLOCK = Clock()
SOON = 20_000
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]


def service(directory: Path) -> ServiceProcess:
    return ServiceProcess("sleeper", directory, CLOCK)


def soon() -> Deadline:
    return Deadline.after(CLOCK, SOON)


# Its first thread ends, as a killed JVM's does, while another one still has the process's sockets and locks.
HALF_GONE = """
import ctypes, socket, threading
held = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=threading.Event().wait, args=(60,)).start()
print(held.getsockname()[1], flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def wait_recorded(process: ServiceProcess) -> Identity:
    deadline = soon()
    while (identity := process.identity()) is None:
        assert not deadline.passed
        CLOCK.sleep(5)
    return identity


def test_another_object_finds_and_stops_the_child(tmp_path: Path) -> None:
    child = service(tmp_path).start(["sleep", "60"], os.environ, tied=False)
    found = wait_recorded(service(tmp_path))
    assert found.pid == child.pid
    assert found.rss_bytes() > 0
    assert os.getsid(found.pid) == found.pid
    assert service(tmp_path).stop(SOON)
    assert not found.is_alive()
    assert found.rss_bytes() == 0
    assert not service(tmp_path).stop(SOON)
    assert not service(tmp_path).crashed()


def test_a_recycled_pid_is_never_signalled(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        process = service(tmp_path)
        process.pid_file.parent.mkdir()
        stat = Path(f"/proc/{bystander.pid}/stat").read_text().strip()
        start = stat.rpartition(")")[2].split()[19]
        process.pid_file.write_text(f"{stat.replace(start, '1')}\n{BOOT_ID.read_text()}")
        assert process.identity() is None
        assert process.crashed()
        assert not process.stop(SOON)
        assert bystander.poll() is None
        process.pid_file.write_text(f"{stat}\nanother-boot\n")
        assert not process.kill()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("content", ["", "123\n", "not a pid\nat all\n", "1 (x) S\nboot\n"])
def test_a_broken_pid_file_is_nobody(tmp_path: Path, content: str) -> None:
    process = service(tmp_path)
    process.pid_file.parent.mkdir()
    process.pid_file.write_text(content)
    assert process.identity() is None
    assert not process.stop(SOON)


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    process = service(tmp_path)
    child = process.start(STUBBORN, os.environ, tied=False)
    child.wait_ready(lambda: "ready" in process.log_tail(), soon())
    identity = wait_recorded(process)
    begun_ms = CLOCK.monotonic_ms()
    assert process.stop(grace_ms=200)
    assert 200 <= CLOCK.monotonic_ms() - begun_ms < SOON
    assert not identity.is_alive()


def test_a_process_whose_first_thread_is_gone_is_alive_until_its_port_is_free(tmp_path: Path) -> None:
    process = service(tmp_path)
    child = process.start([sys.executable, "-c", HALF_GONE], os.environ, tied=False)
    stat = Path(f"/proc/{child.pid}/stat")
    child.wait_ready(lambda: bool(process.log_tail()) and stat.read_text().split()[2] == "Z", soon())
    port = int(process.log_tail())
    assert wait_recorded(process).is_alive()
    assert not ports.is_free(port)
    assert process.kill()
    assert ports.is_free(port)


def test_a_child_that_ends_early_is_reported_with_its_own_last_lines(tmp_path: Path) -> None:
    process = service(tmp_path)
    process.log_file.parent.mkdir()
    process.log_file.write_text("an older run said this\n")
    child = process.start(["sh", "-c", "echo the disk is full; exit 3"], os.environ, tied=False)
    with pytest.raises(ServiceStartError, match="sleeper ended with code 3 before it answered") as caught:
        child.wait_ready(lambda: False, soon())
    assert caught.value.log_tail == "the disk is full"
    assert str(process.log_file) in caught.value.remedy
    assert "the disk is full" in str(caught.value)


def test_a_child_that_never_answers_is_reported_at_the_deadline(tmp_path: Path) -> None:
    process = service(tmp_path)
    child = process.start(["sleep", "60"], os.environ, tied=False)
    with pytest.raises(ServiceStartError, match="runs but did not answer in time"):
        child.wait_ready(lambda: False, Deadline.after(CLOCK, 100))
    wait_recorded(process)
    assert process.kill()


def test_a_tied_child_dies_with_its_parent_and_another_does_not(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from infra.services.process import ServiceProcess as S\n"
        "for name in ('tied', 'free'):\n"
        "    s = S(name, Path(sys.argv[1])); s.start(['sleep', '60'], os.environ, tied=name == 'tied')\n"
        "    while s.identity() is None: pass\n"
        "os.kill(os.getpid(), 9)"
    )
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert ran.returncode == -signal.SIGKILL
    tied, free = (ServiceProcess(name, tmp_path, CLOCK) for name in ("tied", "free"))
    deadline = soon()
    while tied.identity() is not None and not deadline.passed:
        CLOCK.sleep(10)
    assert tied.crashed()
    assert free.stop(SOON)
