"""Children of the demo: restarted when killed, reported when they fail, gone when the demo stops."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from infra import cli
from infra.clock import Clock, Deadline
from infra.demo.supervisor import ChildFailedError, Supervised, Supervisor

CLOCK = Clock()


def watch(supervisor: Supervisor, child: Supervised) -> None:
    deadline = Deadline.after(CLOCK, 20_000)
    while child.exit_code is None:
        supervisor.check()
        assert not deadline.passed, "the child neither ended nor failed"
        CLOCK.sleep(20)


def test_a_child_that_ends_well_is_done(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, CLOCK, lambda _: None)
    child = supervisor.start("version", ["--version"])
    watch(supervisor, child)
    assert supervisor.done
    assert child.output()[-1].startswith("recd ")


def test_a_child_that_fails_shows_its_last_lines_and_is_not_restarted(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, CLOCK, lambda _: None)
    child = supervisor.start("typo", ["demoo"])
    with pytest.raises(ChildFailedError, match="Did you mean 'demo'"):
        watch(supervisor, child)
    assert child.restarts == 0


def test_a_killed_child_is_started_again_and_counted(tmp_path: Path) -> None:
    assert cli.run(["init", str(tmp_path / "written.toml")]) == 0
    # A file that nobody has written yet: the child waits for it, however slow the killer is.
    awaited = tmp_path / "awaited.toml"
    os.mkfifo(awaited)
    told: list[str] = []
    supervisor = Supervisor(tmp_path, CLOCK, told.append)
    child = supervisor.start("config", ["config", "--config", str(awaited)])
    deadline = Deadline.after(CLOCK, 20_000)
    while (identity := child.process.identity()) is None:
        assert not deadline.passed
    os.kill(identity.pid, signal.SIGKILL)  # As an outsider does.
    while not child.restarts:
        supervisor.check()
        assert not deadline.passed
    awaited.write_text((tmp_path / "written.toml").read_text())
    watch(supervisor, child)
    assert supervisor.restarts == {"config": 1}
    assert "killed by signal 9" in told[0]
    assert child.done


def test_stopping_leaves_no_child_behind(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, CLOCK, lambda _: None)
    child = supervisor.start("version", ["--version"])
    supervisor.stop()
    assert child.process.identity() is None
