"""`torchrun … recd trainer` over real Kafka: two ranks, one of them killed or told to stop, and each sample once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from infra.clock import Clock, Deadline
from tests.fault.trainer_process import TrainerHome, make_home
from tests.trainer.kafka_kit import MiniBatchTopic, audit, config, make_topic, train, trained_steps, write_log
from tests.trainer.lineage_kit import topic
from trainer.checkpoint.load import newest
from trainer.run_config import CHECKPOINTS, LEDGER

LOG = topic(batches=40)
STEPS = 40
SAMPLES = 2 * 40 * 6
_WAIT_S = 120


@pytest.fixture(scope="module")
def minibatches(kafka: str) -> MiniBatchTopic:
    """A whole epoch in real Kafka."""
    made = make_topic(kafka, "ranks-kill")
    write_log(made, LOG)
    made.end()
    return made


@dataclass(frozen=True, slots=True)
class Launched:
    """A launcher and the ranks that it has started."""

    launcher: subprocess.Popen[str]

    def ranks(self) -> dict[int, int]:
        """Rank to process."""
        return {int(_environment(pid)["RANK"]): pid for pid in _children(self.launcher.pid)}

    def finish(self) -> tuple[int, dict[str, Any]]:
        """Exit code and summary, of which there is one at most."""
        assert self.launcher.stdout is not None
        with self.launcher.stdout:
            out = self.launcher.stdout.read()
        self.launcher.wait(_WAIT_S)
        said = [json.loads(line) for line in out.splitlines()]
        found = [each for each in said if each["event"] == "summary" and each["ok"]]
        assert len(found) <= 1, "rank 0 speaks for all"
        return self.launcher.returncode, found[0] if found else {}


@contextmanager
def torchrun(home: TrainerHome, *arguments: str, restarts: int = 0) -> Iterator[Launched]:
    """Two ranks of the trainer; gone at the end of the block."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    launch += ["--max-restarts", str(restarts), "--monitor-interval", "0.1", "-m", "infra.cli"]
    command = [*launch, "trainer", "-c", str(home.path / "recd.toml"), "--json", *arguments]
    with (home.path / "stderr.log").open("a") as err:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True)
        launched = Launched(process)
        try:
            yield launched
        finally:
            for pid in (*_children(process.pid), process.pid):
                if process.poll() is None:
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in path.read_text().split()] if path.exists() else []


def _environment(pid: int) -> dict[str, str]:
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def wait_for_steps(home: TrainerHome, steps: int) -> None:
    clock = Clock()
    deadline = Deadline.after(clock, _WAIT_S * 1000)
    while trained_steps(home.model) < steps:
        assert not deadline.passed, (home.path / "stderr.log").read_text()
        clock.sleep(2)


def saved(home: TrainerHome) -> dict[str, torch.Tensor]:
    checkpoint = newest(home.model / CHECKPOINTS).checkpoint
    assert checkpoint is not None
    return checkpoint.tensors()


def test_two_ranks_train_a_topic_each_sample_once_and_learn_what_one_process_learns(
    tmp_path: Path, minibatches: MiniBatchTopic
) -> None:
    home = make_home(tmp_path / "ranks", minibatches, every_steps=15)
    with torchrun(home, "--exit-at-end") as launched:
        code, summary = launched.finish()
    assert (code, summary["lineage_samples"], summary["exit_reason"]) == (0, SAMPLES, "end")
    assert audit(home.model, LOG).exact
    # The live order of another run may differ: one process follows the order that the ranks have recorded.
    shutil.copytree(home.model / LEDGER, tmp_path / "alone" / LEDGER)
    assert train(config(minibatches, tmp_path / "alone")).repeated_steps == summary["step"]
    alone = newest(tmp_path / "alone" / CHECKPOINTS).checkpoint
    assert alone is not None
    for name, tensor in alone.tensors().items():
        assert torch.allclose(tensor, saved(home)[name], rtol=1e-3, atol=1e-4), f"{name} differs"


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.audit), 1])
def test_a_rank_that_is_killed_restarts_all_from_the_checkpoint(
    tmp_path: Path, minibatches: MiniBatchTopic, rank: int
) -> None:
    home = make_home(tmp_path, minibatches, every_steps=5)
    with torchrun(home, "--exit-at-end", restarts=1) as launched:
        wait_for_steps(home, 7)
        os.kill(launched.ranks()[rank], signal.SIGKILL)
        code, summary = launched.finish()
    assert (code, summary["epoch"], summary["lineage_samples"]) == (0, 2, SAMPLES)
    assert audit(home.model, LOG).exact


def test_sigterm_to_the_launcher_drains_all_ranks(tmp_path: Path, minibatches: MiniBatchTopic) -> None:
    home = make_home(tmp_path, minibatches, every_steps=1000)
    with torchrun(home) as launched:
        wait_for_steps(home, 4)
        launched.launcher.send_signal(signal.SIGTERM)
        _, summary = launched.finish()
    assert summary["exit_reason"] == "sigterm"
    assert trained_steps(home.model) == summary["step"]
    code, summary = home.run("--exit-at-end")
    assert (code, summary["lineage_samples"], summary["repeated_steps"]) == (0, SAMPLES, 0)
    assert audit(home.model, LOG).exact
