"""`recd trainer` as a process of its own over a test's topic, to be killed.

The processes are forked from a server that has imported the trainer once and holds no thread, no client and no
lock: each is a real process with its own command line, and starts in milliseconds instead of seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from infra import cli
from infra.clock import Clock, Deadline
from infra.config import from_values
from infra.config_file import resolved
from tests.trainer.kafka_kit import MiniBatchTopic, trained_steps
from tests.trainer.lineage_kit import SCHEMA

_WAIT_MS = 100_000
_FORKING = get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.fault.trainer_process", "infra.commands.trainer"])


@dataclass(frozen=True, slots=True)
class RunningTrainer:
    """One process."""

    process: BaseProcess
    out: Path

    def send(self, number: signal.Signals) -> None:
        """A signal, unless it has left already.

        The fork server reaps a process as soon as it ends, before it has told us, so its pid may be gone while
        `is_alive` still holds.
        """
        if self.process.is_alive():
            assert self.process.pid is not None, "it was started"
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def kill(self) -> None:
        """SIGKILL, now."""
        self.send(signal.SIGKILL)
        self.process.join()
        assert self.process.exitcode == -signal.SIGKILL, "it had left by itself before it was killed"

    def finish(self) -> tuple[int, dict[str, Any]]:
        """Wait; exit code, and the summary if there is one. Every line on stdout must be JSON."""
        self.process.join(_WAIT_MS / 1000)
        assert self.process.exitcode is not None, f"it is still running; {self.out} has what it said"
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        return self.process.exitcode, lines[-1] if lines and lines[-1]["event"] == "summary" else {}


@dataclass(frozen=True, slots=True)
class TrainerHome:
    """A directory with a configuration and the lineage under it."""

    path: Path

    @property
    def model(self) -> Path:
        """The checkpoint directory."""
        return self.path / "model"

    def start(self, *arguments: str) -> RunningTrainer:
        """The trainer, with its output kept."""
        out = self.path / "stdout.jsonl"
        command = ["trainer", "-c", str(self.path / "recd.toml"), "--json", *arguments]
        process = _FORKING.Process(target=run_command, args=(command, out, self.path / "stderr.log"), daemon=True)
        process.start()
        return RunningTrainer(process, out)

    def run(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """The trainer to its end: exit code and summary, empty if it was killed."""
        return self.start(*arguments).finish()

    def wait_for_steps(self, steps: int) -> None:
        """Until the ledger holds so many steps."""
        clock = Clock()
        deadline = Deadline.after(clock, _WAIT_MS)
        while trained_steps(self.model) < steps:
            assert not deadline.passed, (self.path / "stderr.log").read_text()
            clock.sleep(2)


def run_command(command: list[str], out: Path, err: Path) -> None:
    """What a forked process does: one command line of recd, its output in files."""
    for path, mode, target in ((out, "w", 1), (err, "a", 2)):
        with path.open(mode) as file:
            os.dup2(file.fileno(), target)
    sys.exit(cli.run(command))


def make_home(
    path: Path, topic: MiniBatchTopic, *, every_steps: int, background: bool = True, hot_rows: int = 0
) -> TrainerHome:
    """A home whose configuration is the one of `tests.trainer.lineage_kit`."""
    path.mkdir(parents=True, exist_ok=True)
    tier = {"hot_rows": hot_rows, "cold_directory": str(path / "cold")} if hot_rows else {}
    settings = from_values(
        {
            "event": {"event_id": ["id"], "user": "user", "item": "item", "time": "at"},
            "labels": [{"name": "like", "field": "like"}],
            "features": [
                {"name": "user", "field": "user", "table": "users"},
                {"name": "item", "field": "item", "table": "items"},
            ],
            "dense": [{"name": "hour", "field": "hour"}],
            "histories": [{"name": "liked", "table": "items", "last": 5}],
            "groups": [{"name": "who", "features": ["user", "liked"]}],
            "model": {
                "tables": {"users": {"rows": 32}, "items": {"rows": 48}},
                "dim": 4,
                "dense_layers": [4],
                "over_layers": [8],
                "pooling": {"liked": "attention"},
                "attention": {"heads": 1, "feedforward": 8, "max_length": 5},
            },
            "train": {"step_samples": 12, "threads": 1, "window_samples": 50, "seed": 3, **tier},
            "source": {"group": path.name, "merge_wait_ms": 20},
            "checkpoint": {"directory": str(path / "model"), "every_steps": every_steps, "background": background},
            "kafka": {"bootstrap": topic.kafka.bootstrap},
            "topics": {"interactions": topic.names.interactions, "minibatches": topic.name, "partitions": 2},
            "metrics": {"enabled": False},
        }
    )
    assert settings.schema.fingerprint() == SCHEMA.fingerprint()
    (path / "recd.toml").write_text(resolved(settings))
    return TrainerHome(path)
