"""The whole demo, as a person runs it, with both of its processes killed while work is in flight."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from infra.services.process import ServiceProcess

SAMPLES, RATE = 12_000, 300

pytestmark = [pytest.mark.fault, pytest.mark.integration, pytest.mark.timeout(500)]


def objects(stream: IO[str]) -> Iterator[dict[str, Any]]:
    for line in stream:
        yield json.loads(line)


def kill(directory: Path, name: str) -> None:
    identity = ServiceProcess(name, directory / "run").identity()
    assert identity is not None, f"{name} does not run"
    os.kill(identity.pid, signal.SIGKILL)


def test_killing_the_sessionizer_and_the_trainer_changes_nothing_in_the_account(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    options = ["--synthetic", str(SAMPLES), "--rate", str(RATE), "--dir", str(directory), "--report", str(tmp_path)]
    command = [sys.executable, "-m", "infra.cli", "demo", *options, "--json"]
    killed: set[str] = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        last: dict[str, Any] = {}
        for last in objects(demo.stdout):
            if last.get("event") != "progress":
                continue
            # Each as soon as it has work in flight, whichever is first: a slow machine may read all before it trains.
            if "sessionizer" not in killed and last["held"] > 0 and 0 < last["events"] < SAMPLES * 0.9:
                kill(directory, "sessionizer")
                killed.add("sessionizer")
            if "trainer" not in killed and 0 < last["trained"] < SAMPLES * 0.9:
                kill(directory, "trainer")
                killed.add("trainer")
        assert demo.stderr is not None
        told = demo.stderr.read()
    assert killed == {"sessionizer", "trainer"}, f"the demo was over before they could be killed:\n{told}"
    assert demo.returncode == 0, told
    assert "trainer was killed by signal 9; starting it again (restart 1)" in told
    assert "sessionizer was killed by signal 9; starting it again (restart 1)" in told
    # That each sample was trained once is among the demo's own checks; here is what they rest on.
    assert "BROKEN" not in told
    assert (last["events"], last["samples_trained"], last["exit_reason"]) == (SAMPLES, SAMPLES, "end")
    assert (last["late"], last["dead_letter"], last["duplicates"], last["skipped"]) == (0, 0, 0, 0)
    assert last["parity_ok"]
    assert not (directory / "services").exists(), "services are left behind"
    for name in ("trainer", "sessionizer"):
        assert ServiceProcess(name, directory / "run").identity() is None
