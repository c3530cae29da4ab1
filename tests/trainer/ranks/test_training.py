"""Ranks over mini-batches in memory: the model of one process, whatever the number of ranks and the share of each."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.trainer.lineage_kit import config, mini_batch, topic, trainer
from tests.trainer.ranks import ranks_kit
from tests.trainer.ranks.training_kit import Log, train
from trainer.checkpoint.load import newest
from trainer.kept import kept_steps
from trainer.ledger import Line, lineage
from trainer.ledger_file import read
from trainer.run_config import CHECKPOINTS, LEDGER, SKIPPED, TrainerConfig

EVEN = topic(batches=6)
ONE_RANK_HAS_ALL = {0: [mini_batch(0, sequence) for sequence in range(10)], 1: []}
UNEVEN = {
    0: [mini_batch(0, sequence, 10) for sequence in range(3)],
    1: [mini_batch(1, sequence, 3) for sequence in range(8)],
}


def lines(settings: TrainerConfig) -> list[Line]:
    return lineage(read(settings.directory / LEDGER))


def state(settings: TrainerConfig) -> dict[str, Tensor]:
    checkpoint = newest(settings.directory / CHECKPOINTS).checkpoint
    assert checkpoint is not None
    return checkpoint.tensors()


def assert_close(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Within the order of sums in float32."""
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.allclose(tensor, other[name], rtol=1e-4, atol=1e-5), f"{name} differs"


@pytest.mark.parametrize("log", [EVEN, ONE_RANK_HAS_ALL, UNEVEN], ids=["even", "one rank has all", "uneven"])
def test_two_ranks_take_the_steps_of_one_process_and_learn_its_model(tmp_path: Path, log: Log) -> None:
    alone, ranks = config(tmp_path / "alone"), config(tmp_path / "ranks")
    before = trainer(alone, log).run()
    summary, reason = ranks_kit.run(2, train, ranks, log)
    assert (summary["exit_reason"], reason, summary["lineage_samples"]) == ("end", "end", before.lineage_samples)
    assert [line.batches for line in lines(ranks)] == [line.batches for line in lines(alone)]
    assert summary["lineage_ids"] == before.lineage_ids
    assert_close(state(ranks), state(alone))
    assert summary["metrics"]["like"]["lifetime"]["ne"] == pytest.approx(
        before.metrics["like"]["lifetime"]["ne"], rel=1e-4
    )


def test_another_number_of_ranks_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    alone, ranks = config(tmp_path / "alone"), config(tmp_path / "ranks")
    trainer(alone, EVEN).run()
    first, _ = ranks_kit.run(2, train, ranks, EVEN, 2)
    second = trainer(ranks, EVEN, max_steps=2).run()
    third, *_ = ranks_kit.run(3, train, ranks, EVEN)
    assert (first["step"], second.restored_step, second.step, third["restored_step"], third["step"]) == (2, 2, 4, 4, 6)
    assert (third["epoch"], third["repeated_steps"], third["lineage_samples"]) == (3, 0, 72)
    assert [line.batches for line in lines(ranks)] == [line.batches for line in lines(alone)]
    assert_close(state(ranks), state(alone))


def test_ranks_stopped_after_a_step_go_on_bit_equal(tmp_path: Path) -> None:
    unbroken, broken = config(tmp_path / "unbroken"), config(tmp_path / "broken")
    ranks_kit.run(2, train, unbroken, EVEN)
    ranks_kit.run(2, train, broken, EVEN, 3)
    ranks_kit.run(2, train, broken, EVEN)
    mine, theirs = state(broken), state(unbroken)
    for name, tensor in mine.items():
        assert torch.equal(tensor, theirs[name]), f"{name} differs"


def test_a_step_that_is_not_finite_on_one_rank_changes_nothing_on_any(tmp_path: Path) -> None:
    log = {
        0: [mini_batch(0, 0), mini_batch(0, 1), mini_batch(0, 2)],
        1: [mini_batch(1, 0), mini_batch(1, 1, poisoned=True)],
    }
    alone, ranks = config(tmp_path / "alone"), config(tmp_path / "ranks")
    trainer(alone, log).run()
    summary, _ = ranks_kit.run(2, train, ranks, log)
    assert (summary["lineage_skipped_steps"], summary["lineage_skipped_samples"], summary["step"]) == (1, 12, 3)
    assert kept_steps(tmp_path / "ranks" / SKIPPED)[0]["cause"] == {"samples_by_column": {"dense hour": 6}}
    assert_close(state(ranks), state(alone))


def test_one_rank_that_is_told_to_stop_stops_all_and_all_is_saved(tmp_path: Path) -> None:
    ranks = config(tmp_path)
    summary, reason = ranks_kit.run(2, train, ranks, EVEN, None, "", 1)
    assert (summary["exit_reason"], reason) == ("sigterm", "sigterm")
    assert summary["checkpoints"] == (1 if summary["steps"] else 0)
    assert trainer(ranks, EVEN).run().lineage_samples == 72


def test_rank_0_killed_with_work_in_flight_ends_the_others_and_a_restart_is_exact(tmp_path: Path) -> None:
    unbroken, broken = config(tmp_path / "unbroken"), config(tmp_path / "broken", every_steps=2)
    ranks_kit.run(2, train, unbroken, EVEN)
    killed, lost = ranks_kit.fates(2, train, broken, EVEN, None, "step_done:3")
    assert killed == "died of signal 9"
    assert "another rank has ended" in lost
    summary, _ = ranks_kit.run(2, train, broken, EVEN)
    assert (summary["restored_step"], summary["repeated_steps"], summary["lineage_samples"]) == (2, 1, 72)
    mine, theirs = state(broken), state(unbroken)
    for name, tensor in mine.items():
        assert torch.equal(tensor, theirs[name]), f"{name} differs"


def test_a_rank_that_cannot_go_on_ends_all_with_its_words(tmp_path: Path) -> None:
    gap = {0: EVEN[0], 1: [EVEN[1][0], EVEN[1][2]]}
    leader, follower = ranks_kit.fates(2, train, config(tmp_path), gap)
    assert "rank 1" in leader
    assert "partition 1: sequence 1 was due, but 2 stands" in leader
    assert "sequence 1 was due" in follower
    assert trainer(config(tmp_path), EVEN).run().lineage_samples == 72


def test_a_second_trainer_is_kept_out_on_every_rank(tmp_path: Path) -> None:
    settings = config(tmp_path, lease_wait_ms=0)
    first = trainer(settings, EVEN, max_steps=1)
    for said in ranks_kit.fates(2, train, settings, EVEN):
        assert "another trainer" in said
    first.run()
