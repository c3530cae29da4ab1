"""`recd trainer` killed with work in flight, over real Kafka: each sample once, and the weights of an unkilled run."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

from infra.clock import Clock
from streams.minibatch import MiniBatch
from tests.fault.trainer_process import TrainerHome, make_home
from tests.trainer.kafka_kit import MiniBatchTopic, audit, config, make_topic, train, trained_steps, write_log
from tests.trainer.lineage_kit import topic
from trainer.checkpoint.load import newest
from trainer.run_config import CHECKPOINTS, LEDGER

LOG = topic(batches=40)
STEPS = 40
SAMPLES = 2 * 40 * 6


@pytest.fixture(scope="module")
def minibatches(kafka: str) -> MiniBatchTopic:
    """A whole epoch in real Kafka, transactions, aborted ones and end records included."""
    made = make_topic(kafka, "trainer-kill")
    write_log(made, LOG)
    made.end()
    return made


def saved_step(home: TrainerHome) -> int:
    """Step of the newest checkpoint; 0 without one."""
    checkpoint = newest(home.model / CHECKPOINTS).checkpoint
    return checkpoint.manifest.progress.step if checkpoint else 0


def assert_exact(home: TrainerHome, minibatches: MiniBatchTopic) -> None:
    """Each sample once, and weights bit-equal to an unkilled run that follows the same recorded order."""
    assert not what_differs(home, minibatches, LOG)


def what_differs(home: TrainerHome, minibatches: MiniBatchTopic, log: Mapping[int, Sequence[MiniBatch]]) -> list[str]:
    """What is not: nothing, where all is well."""
    found = audit(home.model, log)
    wrong = [] if found.exact else [str(found)]
    unkilled = home.path / "unkilled"
    shutil.copytree(home.model / LEDGER, unkilled / LEDGER)
    summary = train(config(minibatches, unkilled))
    assert (summary.repeated_steps, summary.restored_step) == (summary.step, 0)
    mine, theirs = newest(home.model / CHECKPOINTS).checkpoint, newest(unkilled / CHECKPOINTS).checkpoint
    assert mine is not None
    assert theirs is not None
    tensors = theirs.tensors()
    return wrong + [f"{name} differs" for name, each in mine.tensors().items() if not torch.equal(each, tensors[name])]


@pytest.mark.parametrize("site", ["ledger_written:7", "step_done:13", "files_written:2", "renamed:2"])
def test_killed_at_a_named_site_and_restarted(tmp_path: Path, minibatches: MiniBatchTopic, site: str) -> None:
    home = make_home(tmp_path, minibatches, every_steps=5)
    code, _ = home.run("--exit-at-end", "--crash-at", site)
    assert code == -signal.SIGKILL
    in_flight = trained_steps(home.model) - saved_step(home)
    code, summary = home.run("--exit-at-end")
    assert (code, summary["lineage_samples"], summary["repeated_steps"]) == (0, SAMPLES, in_flight)
    assert_exact(home, minibatches)


def test_killed_at_random_instants_again_and_again(tmp_path: Path, minibatches: MiniBatchTopic) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201  (shown when the test fails)
    draw = random.Random(seed)
    home = make_home(tmp_path, minibatches, every_steps=6)
    steps, clock, in_flight = 0, Clock(), 0
    for _ in range(3):
        # Paced by its own step limit, so that a fast machine does not finish before the kill.
        process = home.start("--max-steps", "1000")
        steps = min(STEPS - 6, max(steps, trained_steps(home.model)) + draw.randint(2, 10))
        home.wait_for_steps(steps)
        clock.sleep(draw.randint(0, 5))
        process.kill()
        in_flight += trained_steps(home.model) - saved_step(home)
    code, summary = home.run("--exit-at-end")
    assert (code, summary["epoch"], summary["lineage_samples"]) == (0, 4, SAMPLES)
    assert in_flight > 0, "no process died with work in flight: the test proved nothing"
    assert_exact(home, minibatches)


def test_the_control_without_a_ledger_fails_the_audit(tmp_path: Path, minibatches: MiniBatchTopic) -> None:
    home = make_home(tmp_path, minibatches, every_steps=5)
    code, _ = home.run("--exit-at-end", "--without-ledger", "--crash-at", "step_done:13")
    assert code == -signal.SIGKILL
    code, _ = home.run("--exit-at-end", "--without-ledger")
    assert code == 0
    assert not audit(home.model, LOG).exact


def test_sigterm_finishes_the_step_saves_and_leaves_with_0(tmp_path: Path, minibatches: MiniBatchTopic) -> None:
    home = make_home(tmp_path, minibatches, every_steps=1000)
    process = home.start()
    home.wait_for_steps(4)
    process.send(signal.SIGTERM)
    code, summary = process.finish()
    assert (code, summary["exit_reason"]) == (0, "sigterm")
    assert saved_step(home) == trained_steps(home.model) == summary["step"]
    code, summary = home.run("--exit-at-end")
    assert (code, summary["lineage_samples"], summary["repeated_steps"]) == (0, SAMPLES, 0)
    assert audit(home.model, LOG).exact


def test_sigint_leaves_with_130_having_saved(tmp_path: Path, minibatches: MiniBatchTopic) -> None:
    home = make_home(tmp_path, minibatches, every_steps=1000)
    process = home.start()
    home.wait_for_steps(4)
    process.send(signal.SIGINT)
    code, summary = process.finish()
    assert (code, summary["exit_reason"]) == (130, "sigint")
    assert saved_step(home) == trained_steps(home.model)


def test_sigterm_during_a_save_and_again_at_once_loses_nothing(tmp_path: Path, minibatches: MiniBatchTopic) -> None:
    # With a checkpoint due at every step one is nearly always in flight.
    home = make_home(tmp_path, minibatches, every_steps=1)
    process = home.start()
    home.wait_for_steps(5)
    clock = Clock()
    while process.process.is_alive():
        process.send(signal.SIGTERM)
        clock.sleep(1)
    assert process.process.exitcode in (0, 130), "the first signal drains, a second one ends it at once"
    code, summary = home.run("--exit-at-end")
    assert (code, summary["lineage_samples"]) == (0, SAMPLES)
    assert_exact(home, minibatches)
