"""`recd up`, `down` and `status` as a shell sees them: stdout, stderr and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra.clock import Clock, Deadline
from infra.services.stack import Stack

RECD = [sys.executable, "-m", "infra.cli"]
WITHOUT_JAVA = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": "/nowhere"}


def recd(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, list[dict[str, object]], str]:
    """Exit code, the JSON objects of stdout, stderr."""
    ran = subprocess.run([*RECD, *arguments], capture_output=True, text=True, env=env, timeout=110, check=False)
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr


@pytest.mark.integration
def test_status_up_status_down_in_json(tmp_path: Path) -> None:
    where = ("--dir", str(tmp_path / "services"), "--json")
    code, lines, _ = recd("status", *where)
    assert code == 1
    assert [line["event"] for line in lines] == ["summary"]

    try:
        code, lines, told = recd("up", *where)
        assert code == 0
        assert [line.get("name") for line in lines] == ["kafka-1", "redis", None]
        assert all(line["state"] == "running" for line in lines[:-1])
        summary = lines[-1]
        assert summary["event"] == "summary"
        assert summary["ok"] is True
        assert summary["kind"] == "kafka"
        assert "starting kafka-1 on" in told

        code, lines, _ = recd("status", *where)
        assert code == 0
        assert (lines[-1]["kafka"], lines[-1]["redis"]) == (summary["kafka"], summary["redis"])
    finally:
        code, lines, _ = recd("down", *where)
    assert code == 0
    assert lines[-1]["stopped"] == ["kafka-1", "redis"]
    assert recd("down", *where)[1][-1]["stopped"] == []


def test_a_cluster_that_cannot_be_is_bad_usage_and_says_what_to_do(tmp_path: Path) -> None:
    code, lines, told = recd("up", "--dir", str(tmp_path), "--brokers", "2", "--json")
    assert code == 2
    assert lines == [
        {
            "event": "summary",
            "ok": False,
            "error": "a cluster of 2 brokers is not one of (1, 3)",
            "remedy": "use 1, or 3 for a replicated cluster",
        }
    ]
    assert "what to do: use 1, or 3" in told


def test_three_brokers_without_a_jdk_fail_with_the_remedy(tmp_path: Path) -> None:
    code, lines, told = recd("up", "--dir", str(tmp_path), "--brokers", "3", "--json", env=WITHOUT_JAVA)
    assert code == 1
    assert lines[-1]["ok"] is False
    assert "what to do: `apt-get install openjdk-17-jdk-headless`" in told


@pytest.mark.integration
def test_ctrl_c_in_the_middle_of_up_leaves_nothing_running_and_exits_with_130(tmp_path: Path) -> None:
    command = subprocess.Popen([*RECD, "up", "--dir", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    clock = Clock()
    deadline = Deadline.after(clock, 60_000)
    stack = Stack(tmp_path)
    try:
        while stack.process("kafka-1").identity() is None and not deadline.passed:
            clock.sleep(20)
        command.send_signal(signal.SIGINT)
        _, told = command.communicate(timeout=60)
        assert command.returncode == 130
        assert b"interrupted" in told
        assert {service.state for service in stack.status().services} == {"stopped"}
    finally:
        stack.down()
