"""The loop over mini-batches in memory: every stop and every death goes on as if nothing had happened."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from streams import wire
from streams.errors import ConfigError, InvariantError
from tests.trainer.lineage_kit import TOPIC, config, mini_batch, topic, trainer
from trainer.checkpoint.load import newest, open_checkpoint
from trainer.crash import SITES, kill_at
from trainer.drain import Drain
from trainer.kept import kept_steps
from trainer.ledger import Kind, Line, lineage
from trainer.ledger_file import LedgerFile, read
from trainer.run_config import CHECKPOINTS, LEDGER, SKIPPED, TrainerConfig

LOG = topic(batches=6)
STEPS = 6
"""Twelve mini-batches of six samples, twelve samples a step."""


def weights(settings: TrainerConfig) -> dict[str, Tensor]:
    """Every tensor of the newest checkpoint."""
    checkpoint = newest(settings.directory / CHECKPOINTS).checkpoint
    assert checkpoint is not None
    return checkpoint.tensors()


def trained(settings: TrainerConfig) -> list[tuple[int, int]]:
    """Partition and sequence of every mini-batch in the lineage, in order."""
    return [(entry.partition, entry.sequence) for line in lines(settings) for entry in line.batches]


def lines(settings: TrainerConfig) -> list[Line]:
    """The lineage in the ledger."""
    return lineage(read(settings.directory / LEDGER))


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Bit for bit."""
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), f"{name} differs"


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> TrainerConfig:
    """A run that nobody disturbed."""
    settings = config(tmp_path_factory.mktemp("unbroken"))
    summary = trainer(settings, LOG).run()
    assert (summary.exit_reason, summary.step, summary.lineage_samples) == ("end", STEPS, 72)
    return settings


def test_every_mini_batch_is_trained_once_in_merge_order(unbroken: TrainerConfig) -> None:
    assert trained(unbroken) == [(number, sequence) for sequence in range(6) for number in range(2)]
    assert [line.step for line in lines(unbroken)] == list(range(1, STEPS + 1))


def test_rows_that_come_from_a_file_learn_the_same_bits_through_a_restart(
    unbroken: TrainerConfig, tmp_path: Path
) -> None:
    """Forty hot rows of eighty; a step takes up to about thirty."""
    settings = config(tmp_path / "model")
    tiered = replace(settings, train=replace(settings.train, hot_rows=40, cold_directory=str(tmp_path / "cold")))
    assert trainer(tiered, LOG, max_steps=3).run().exit_reason == "max_steps"
    assert trainer(tiered, LOG).run().exit_reason == "end"
    assert_equal(weights(tiered), weights(unbroken))
    assert not list((tmp_path / "cold").iterdir()), "scratch is gone with the process that made it"


def test_copies_of_touched_rows_make_every_checkpoint_the_same_bits_through_a_restart(tmp_path: Path) -> None:
    """A checkpoint a step, one of whose mini-batches is not finite, so that its rows are touched and unchanged."""
    log = {number: [mini_batch(number, n, poisoned=number + n == 3) for n in range(6)] for number in range(2)}
    runs = {}
    for name in ("whole", "touched"):
        settings = config(tmp_path / name, every_steps=1, background=True)
        settings = replace(settings, checkpoint=replace(settings.checkpoint, copy=name, keep=99))
        assert trainer(settings, log, max_steps=3).run().exit_reason == "max_steps"
        assert trainer(settings, log).run().exit_reason == "end"
        runs[name] = {path.name: path for path in (settings.directory / CHECKPOINTS).glob("step-*")}
    assert_equal(*(open_checkpoint(paths["step-000000000006"]).tensors() for paths in runs.values()))
    common = runs["whole"].keys() & runs["touched"].keys()
    assert len(common) >= 2
    for step in common:
        assert_equal(open_checkpoint(runs["whole"][step]).tensors(), open_checkpoint(runs["touched"][step]).tensors())


def test_a_copy_of_all_tables_is_refused_where_they_do_not_fit_into_memory(tmp_path: Path) -> None:
    settings = config(tmp_path)
    with pytest.raises(ConfigError, match=r"checkpoint.copy"):
        replace(
            settings,
            train=replace(settings.train, hot_rows=40, cold_directory=str(tmp_path)),
            checkpoint=replace(settings.checkpoint, copy="touched"),
        )


def test_the_model_learned_and_was_scored_before(unbroken: TrainerConfig) -> None:
    tensors = weights(unbroken)
    assert int(tensors["model.steps"]) == STEPS
    assert tensors["model.table_momentum.items"].abs().sum() > 0
    assert tensors["evaluator.like.counts"][0] == 72


@pytest.mark.parametrize("stop_at", range(1, STEPS))
def test_stopped_after_any_step_the_rest_is_bit_equal(tmp_path: Path, unbroken: TrainerConfig, stop_at: int) -> None:
    settings = config(tmp_path)
    first = trainer(settings, LOG, max_steps=stop_at).run()
    second = trainer(settings, LOG).run()
    assert (first.exit_reason, first.step, second.restored_step) == ("max_steps", stop_at, stop_at)
    assert (second.epoch, second.repeated_steps, second.lineage_samples) == (2, 0, 72)
    assert_equal(weights(settings), weights(unbroken))
    assert [line.batches for line in lines(settings)] == [line.batches for line in lines(unbroken)]


@pytest.mark.parametrize("stop_at", range(1, STEPS))
def test_the_saved_position_is_of_what_was_trained_not_of_what_was_fetched(tmp_path: Path, stop_at: int) -> None:
    settings = config(tmp_path)
    trainer(settings, LOG, max_steps=stop_at).run()
    checkpoint = newest(tmp_path / CHECKPOINTS).checkpoint
    assert checkpoint is not None
    for position in checkpoint.manifest.progress.positions.values():
        assert position.next_sequence == stop_at
        assert position.next_offset == 2 * (stop_at - 1) + 1


def run_and_die(settings: TrainerConfig, spec: str) -> None:
    """Train in a process that kills itself at a named site."""
    trainer(settings, LOG, crash=kill_at(spec)).run()


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("site", SITES)
def test_killed_at_a_named_site_the_lineage_is_exact_and_the_weights_are_those_of_an_unbroken_run(
    tmp_path: Path, unbroken: TrainerConfig, site: str, *, background: bool
) -> None:
    settings = config(tmp_path, every_steps=2, background=background)
    process = multiprocessing.get_context("fork").Process(target=run_and_die, args=(settings, f"{site}:2"))
    process.start()
    process.join(60)
    assert process.exitcode == -9, "the process must have died with work in flight"
    summary = trainer(settings, LOG).run()
    assert (summary.step, summary.lineage_samples, summary.epoch) == (STEPS, 72, 2)
    assert_equal(weights(settings), weights(unbroken))
    assert sorted(trained(settings)) == sorted(trained(unbroken))


def test_a_restored_trainer_follows_the_recorded_composition_not_the_live_one(tmp_path: Path) -> None:
    settings = config(tmp_path, every_steps=100)
    process = multiprocessing.get_context("fork").Process(target=run_and_die, args=(settings, "step_done:3"))
    process.start()
    process.join(60)
    other = replace(settings, train=replace(settings.train, step_samples=6))
    before = [line.batches for line in lines(settings)]
    summary = trainer(other, LOG).run()
    after = [line.batches for line in lines(settings)]
    assert (summary.restored_step, summary.repeated_steps) == (0, 3)
    assert after[:3] == before
    assert [len(batches) for batches in after] == [2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_a_rewritten_topic_is_refused(tmp_path: Path) -> None:
    settings = config(tmp_path, every_steps=100)
    process = multiprocessing.get_context("fork").Process(target=run_and_die, args=(settings, "step_done:3"))
    process.start()
    process.join(60)
    changed = {number: [mini_batch(number, sequence, 8) for sequence in range(6)] for number in range(2)}
    with pytest.raises(InvariantError, match="the mini-batch topic was rewritten"):
        trainer(settings, changed).run()


def test_a_batch_that_is_not_finite_changes_nothing_and_has_a_line_of_its_own(tmp_path: Path) -> None:
    log = {0: [mini_batch(0, 0, 12), mini_batch(0, 1, 12, poisoned=True), mini_batch(0, 2, 12)]}
    settings = config(tmp_path)
    assert trainer(settings, log, max_steps=1).run().samples == 12
    before = weights(settings)
    summary = trainer(settings, log, max_steps=1).run()
    assert (summary.lineage_samples, summary.lineage_skipped_samples, summary.lineage_skipped_steps) == (12, 12, 1)
    after = weights(settings)
    for name in before.keys() - {"model.steps"}:
        assert torch.equal(before[name], after[name]), f"{name} changed"
    assert [(line.kind, line.step, line.reason) for line in read(tmp_path / LEDGER)] == [
        (Kind.TRAINED, 1, ""),
        (Kind.TRAINED, 2, ""),
        (Kind.SKIPPED, 2, "not_finite"),
    ]
    (kept,) = kept_steps(tmp_path / SKIPPED)
    assert (kept["step"], kept["cause"]) == (2, {"samples_by_column": {"dense hour": 12}})
    (mini,) = kept["mini_batches"]
    assert (mini["partition"], mini["offset"], mini["sequence"]) == (0, 2, 1)
    stored = wire.decode((Path(kept["path"]) / mini["file"]).read_bytes())
    assert stored.content_hash == log[0][1].content_hash
    assert trainer(settings, log).run().lineage_samples == 24


def test_too_many_steps_in_a_row_that_are_not_finite_stop_the_trainer(tmp_path: Path) -> None:
    settings = config(tmp_path)
    settings = replace(settings, train=replace(settings.train, max_skipped_steps=2))
    log = {0: [mini_batch(0, sequence, 12, poisoned=True) for sequence in range(4)]}
    with pytest.raises(InvariantError, match="3 steps in a row were not finite"):
        trainer(settings, log).run()
    assert [kept["step"] for kept in kept_steps(tmp_path / SKIPPED)] == [1, 2, 3]


def test_only_the_newest_steps_that_were_not_finite_are_kept(tmp_path: Path) -> None:
    settings = config(tmp_path)
    settings = replace(settings, train=replace(settings.train, keep_skipped=2))
    log = {0: [mini_batch(0, sequence, 12, poisoned=sequence % 2 == 1) for sequence in range(10)]}
    trainer(settings, log).run()
    assert [kept["step"] for kept in kept_steps(tmp_path / SKIPPED)] == [8, 10]
    assert len(list((tmp_path / SKIPPED).iterdir())) == 2


def test_a_request_to_drain_finishes_the_step_and_saves(tmp_path: Path) -> None:
    settings = config(tmp_path, every_steps=100)
    drain = Drain(60_000)
    summary = trainer(settings, LOG, crash=lambda _site: drain.request("sigterm"), drain=drain).run()
    assert (summary.exit_reason, summary.step, summary.checkpoints) == ("sigterm", 1, 1)
    assert trainer(settings, LOG).run().lineage_samples == 72


def test_another_model_is_refused_and_every_difference_named(tmp_path: Path) -> None:
    settings = config(tmp_path)
    trainer(settings, LOG, max_steps=1).run()
    other = replace(settings, model=replace(settings.model, dim=8, over_layers=(16,)))
    with pytest.raises(ConfigError, match=r"model.dim: was 4, is 8; model.over_layers: was \[8\], is \[16\]"):
        trainer(other, LOG)
    # The refusal has let go of the directory.
    assert trainer(settings, LOG).run().lineage_samples == 72


def test_a_ledger_that_ends_before_the_checkpoint_is_refused(tmp_path: Path) -> None:
    settings = config(tmp_path)
    trainer(settings, LOG, max_steps=3).run()
    for path in (tmp_path / LEDGER).iterdir():
        path.unlink()
    with pytest.raises(InvariantError, match="ends at step 0, but a checkpoint stands at step 3"):
        trainer(settings, LOG)


def test_two_trainers_never_share_a_directory(tmp_path: Path) -> None:
    settings = config(tmp_path, lease_wait_ms=0)
    first = trainer(settings, LOG, max_steps=1)
    with pytest.raises(ConfigError, match="another trainer"):
        trainer(settings, LOG)
    first.run()
    assert trainer(settings, LOG).run().epoch == 2


def test_a_damaged_checkpoint_is_passed_over_and_its_steps_are_repeated(
    tmp_path: Path, unbroken: TrainerConfig
) -> None:
    settings = config(tmp_path, every_steps=2)
    trainer(settings, LOG, max_steps=4).run()
    file = tmp_path / CHECKPOINTS / "step-000000000004" / "tensors-00000.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    summary = trainer(settings, LOG).run()
    assert (summary.restored_step, summary.repeated_steps, summary.lineage_samples) == (2, 2, 72)
    assert_equal(weights(settings), weights(unbroken))
    assert (tmp_path / CHECKPOINTS / "damaged-step-000000000004").exists()


def test_the_topic_of_the_kit_is_the_one_that_checkpoints_name(unbroken: TrainerConfig) -> None:
    checkpoint = newest(unbroken.directory / CHECKPOINTS).checkpoint
    assert checkpoint is not None
    assert checkpoint.manifest.progress.topic == TOPIC


def test_a_trainer_goes_back_to_an_older_checkpoint_and_learns_the_same_again(
    tmp_path: Path, unbroken: TrainerConfig
) -> None:
    """What came after it is set aside and void, but never lost."""
    settings = config(tmp_path, every_steps=2)
    trainer(settings, LOG).run()
    summary = trainer(settings, LOG, from_step=2).run()
    assert (summary.restored_step, summary.repeated_steps, summary.step, summary.lineage_samples) == (2, 0, STEPS, 72)
    assert_equal(weights(settings), weights(unbroken))
    assert [line.batches for line in lines(settings)] == [line.batches for line in lines(unbroken)]
    kinds = [line.kind for line in read(tmp_path / LEDGER)]
    assert kinds == [Kind.TRAINED] * STEPS + [Kind.REWIND] + [Kind.TRAINED] * (STEPS - 2)
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).glob("damaged-*")) == [
        "damaged-step-000000000004",
        "damaged-step-000000000006",
    ]


def test_a_trainer_may_go_back_and_on_in_another_order(tmp_path: Path) -> None:
    settings = config(tmp_path, every_steps=2)
    trainer(settings, LOG).run()
    other = replace(settings, train=replace(settings.train, step_samples=6))
    assert trainer(other, LOG, from_step=4, max_steps=1).run().step == 5
    assert [len(line.batches) for line in lines(other)] == [2, 2, 2, 2, 1]
    assert trainer(other, LOG).run().lineage_samples == 72


def test_a_checkpoint_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    settings = config(tmp_path, every_steps=2)
    trainer(settings, LOG).run()
    with pytest.raises(ConfigError, match="no checkpoint of step 3; those it holds are of steps: 6, 4, 2"):
        trainer(settings, LOG, from_step=3)
    assert trainer(settings, LOG).run().restored_step == STEPS, "nothing was set aside"


@pytest.mark.parametrize("died_at", ["set aside", "ledger"])
def test_a_death_while_going_back_leaves_a_lineage_that_goes_on(
    tmp_path: Path, unbroken: TrainerConfig, monkeypatch: pytest.MonkeyPatch, died_at: str
) -> None:
    settings = config(tmp_path, every_steps=2)
    trainer(settings, LOG).run()
    with monkeypatch.context() as patch:
        if died_at == "set aside":
            patch.setattr(LedgerFile, "append", _die)
        else:
            patch.setattr(LedgerFile, "append", _append_and_die(LedgerFile.append))
        with pytest.raises(KeyboardInterrupt):
            trainer(settings, LOG, from_step=2)
    summary = trainer(settings, LOG).run()
    assert (summary.restored_step, summary.step, summary.lineage_samples) == (2, STEPS, 72)
    assert_equal(weights(settings), weights(unbroken))


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def _append_and_die(append: Callable[[LedgerFile, Line], None]) -> Callable[[LedgerFile, Line], None]:
    def both(ledger: LedgerFile, line: Line) -> None:
        append(ledger, line)
        raise KeyboardInterrupt

    return both
