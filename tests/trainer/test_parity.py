"""Parity as a standing test: deduplication changes nothing, and the proof can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streams.ikjt.ikjt import Ikjt
from streams.minibatch import MiniBatch
from tests.trainer.sample import model_of, optimizer_of, random_batch, schema_of
from trainer import parity
from trainer.config import DenseOptimizerName, Pooling, Readout
from trainer.parity import run_parity

SCHEMA = schema_of()


def batches_of(num: int, *, dense: int = 2) -> list[MiniBatch]:
    return [random_batch(np.random.default_rng(seed), 24, dense=dense) for seed in range(num)]


@pytest.mark.parametrize(("readout", "name"), [("mean", "adagrad"), ("last", "adam")])
def test_deduplication_changes_nothing(readout: Readout, name: DenseOptimizerName) -> None:
    report = run_parity(batches_of(40), SCHEMA, model_of(readout=readout), optimizer_of(name), seed=1, every=8)
    assert report.ok, report.reasons
    assert report.rows["profile"][0] < report.rows["profile"][1] == 40 * 24
    assert report.oracle_max_diff < 1e-9
    assert all(0 <= gap < 1e-5 for gap in report.max_abs_diff.values())


@pytest.mark.parametrize("history", ["target", "max", "sum"])
def test_deduplication_changes_nothing_however_a_history_is_pooled(history: Pooling) -> None:
    model = model_of(history=history)
    report = run_parity(batches_of(40), SCHEMA, model, optimizer_of("adam"), seed=1, every=8)
    assert report.ok, report.reasons
    assert report.rows["history"][0] < report.rows["history"][1]
    assert report.oracle_max_diff < 1e-9


def test_deduplication_changes_nothing_without_dense_columns() -> None:
    schema = schema_of(dense=0)
    report = run_parity(batches_of(10, dense=0), schema, model_of(layers=1), optimizer_of(), seed=1, every=5)
    assert report.ok, report.reasons


def test_parity_fails_where_nothing_was_deduplicated() -> None:
    alone = [undeduplicated(batch) for batch in batches_of(3)]
    report = run_parity(alone, SCHEMA, model_of(), optimizer_of(), seed=1)
    assert not report.ok
    assert "was not taken" in report.reasons[-1]


def undeduplicated(batch: MiniBatch) -> MiniBatch:
    """Every sample with a row of its own: legal input, but it proves nothing."""
    everyone = np.arange(len(batch), dtype=np.int32)
    return replace(batch, groups=tuple(Ikjt(group.group, group.expand(), everyone) for group in batch.groups))


def test_parity_fails_where_an_inverse_points_to_the_wrong_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: swap two rows of the deduplicated form only, as a silent bug of an expansion would."""
    from trainer import tensors

    honest = tensors._expansion

    def swapped(inverse_B: tensors.I64, num_rows: int) -> object:
        wrong_B = np.where(inverse_B == 0, 1, np.where(inverse_B == 1, 0, inverse_B))
        return honest(wrong_B if 1 < num_rows < len(inverse_B) else inverse_B, num_rows)

    monkeypatch.setattr(tensors, "_expansion", swapped)
    report = run_parity(batches_of(3), SCHEMA, model_of(), optimizer_of(), seed=1)
    assert not report.ok
    assert {reason[:3] for reason in report.reasons} >= {"(a)", "(b)"}


@pytest.mark.parametrize(("jumps", "ok"), [(2, True), (3, False)])
def test_a_jump_by_chance_does_not_come_back_in_other_orders_and_a_defect_does(
    monkeypatch: pytest.MonkeyPatch, jumps: int, *, ok: bool
) -> None:
    measured = iter([1e-3, 1e-9] * jumps + [0.0, 0.0])  # Drift and noise, in turn.
    monkeypatch.setattr(parity, "_table_rms", lambda _one, _other: next(measured))
    report = run_parity(batches_of(2), SCHEMA, model_of(), optimizer_of(), seed=1)
    assert report.ok is ok
    assert [reason[:3] for reason in report.reasons] == ([] if ok else ["(c)"])
