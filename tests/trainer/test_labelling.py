"""Sampled negatives and labels that may turn: the loss is the oracle's, and what is learned is calibrated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from sessionizer.config import JoinConfig
from sessionizer.sampling import is_kept
from streams.events.roles import Roles
from streams.events.schema import EventSchema, Label, SparseFeature
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.minibatch import MiniBatch
from streams.stage import Stage
from tests.trainer.sample import batch_of, model_of, optimizer_of, random_batch, schema_of
from trainer.config import ModelConfig, OptimizerConfig, TableConfig
from trainer.evaluate import Evaluator
from trainer.labelling import Labelling
from trainer.learner import scored_labels
from trainer.model import RecModel, build_model, build_plain_model
from trainer.oracle import Oracle
from trainer.parity import run_parity
from trainer.step import Step, first_half
from trainer.tensors import to_tensors

F64 = npt.NDArray[np.float64]


def staged_batch(seed: int, *, tasks: int, rate: float) -> MiniBatch:
    """Every stage with every label it can have, and labels that are missing."""
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, 30, tasks=tasks)
    stage = rng.integers(0, 3, 30).astype(np.uint8)
    labels = batch.labels.copy()
    labels[rng.random(labels.shape) < 0.1] = np.nan
    corrected = stage == Stage.CORRECTION
    labels[corrected] = np.where(labels[corrected] == 1, np.float32(1), np.float32(np.nan))
    return replace(batch, labels=labels, stage=stage, negative_rate=rate)


@pytest.mark.parametrize("correct_sampling", [True, False])
@pytest.mark.parametrize(("tasks", "rate"), [(1, 1.0), (1, 0.1), (2, 0.1), (2, 1.0)])
def test_logits_loss_and_every_gradient_are_those_of_the_oracle(
    tasks: int, rate: float, *, correct_sampling: bool
) -> None:
    schema, model = schema_of(tasks=tasks), model_of()
    plain = build_plain_model(schema, model, optimizer_of(), seed=3)
    batch = staged_batch(5, tasks=tasks, rate=rate)
    ours = first_half(plain, to_tensors([batch], schema, model, correct_sampling=correct_sampling))
    judge = Oracle(plain.state(), schema, model, correct_sampling=correct_sampling).run(batch)
    torch.testing.assert_close(ours.logits_BT, judge.logits, rtol=1e-9, atol=0)
    torch.testing.assert_close(ours.loss, judge.loss, rtol=1e-9, atol=0)
    for (name, _), gradient in zip(plain.net.named_parameters(), ours.dense, strict=True):
        torch.testing.assert_close(gradient, judge.gradients[f"dense.{name}"], rtol=1e-9, atol=1e-14)


def test_deduplication_changes_nothing_where_labels_may_turn() -> None:
    batches = [staged_batch(seed, tasks=1, rate=0.25) for seed in range(10)]
    report = run_parity(batches, schema_of(tasks=1), model_of(), optimizer_of(), seed=1, every=5)
    assert report.ok, report.reasons


def test_mini_batches_of_different_rates_and_stages_share_a_step() -> None:
    schema, model = schema_of(tasks=1), model_of()
    plain = build_plain_model(schema, model, optimizer_of(), seed=3)
    parts = [staged_batch(1, tasks=1, rate=0.1), replace(staged_batch(2, tasks=1, rate=1.0), stage=None)]
    parts[1].labels[:] = np.nan_to_num(parts[1].labels)
    together = first_half(plain, to_tensors(parts, schema, model))
    known = [int(np.count_nonzero(~np.isnan(part.labels))) for part in parts]
    losses = [float(first_half(plain, to_tensors([part], schema, model)).loss) for part in parts]
    assert float(together.loss) == pytest.approx(np.average(losses, weights=known), rel=1e-12)


def test_a_correction_is_not_scored_and_a_kept_negative_stands_for_those_left_out() -> None:
    batch = staged_batch(7, tasks=2, rate=0.25)
    labels_BT, stands_for_B1 = scored_labels(to_tensors([batch], schema_of(), model_of()))
    assert stands_for_B1 is not None
    expected = np.where((batch.stages == Stage.CORRECTION)[:, None], np.nan, batch.labels)
    np.testing.assert_array_equal(labels_BT.numpy(), expected)
    negative = ~np.any(batch.labels == 1, axis=1)
    np.testing.assert_array_equal(stands_for_B1.numpy()[:, 0], np.where(negative, 4.0, 1.0))


@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("known", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("chance", [0.02, 0.4])
def test_at_the_true_chance_nothing_pulls_in_either_direction(chance: float, known: float, rate: float) -> None:
    """`known`: share of the positives that are known when their sample leaves; `rate`: of negatives that are kept."""
    kinds = [
        (Stage.PROVISIONAL, 1.0, chance * known),
        (Stage.CORRECTION, 1.0, chance * (1 - known)),
        (Stage.PROVISIONAL, 0.0, (1 - chance * known) * rate),
    ]
    stage, label, mass = (torch.tensor(column, dtype=torch.float64)[:, None] for column in zip(*kinds, strict=True))
    labelling = Labelling(stage, torch.full((3, 1), -float(np.log(rate)), dtype=torch.float64))
    logit = torch.tensor(np.log(chance / (1 - chance)), requires_grad=True)
    loss = (labelling.loss_BT(logit.expand(3, 1), label) * mass).sum()
    (gradient,) = torch.autograd.grad(loss, logit)
    assert float(gradient) == pytest.approx(0.0, abs=1e-15)


SCHEMA = EventSchema(
    roles=Roles(event_id=("id",), user="user", item="item", time="ts"),
    labels=(Label(name="clicked", field="clicked"),),
    sparse=(SparseFeature(name="item", field="item", table="items"),),
)
MODEL = ModelConfig(
    tables={"items": TableConfig(rows=64, mapping="direct")}, dim=4, dense_layers=(4,), over_layers=(8,)
)
OPTIMIZER = OptimizerConfig(learning_rate=0.2, dense_learning_rate=0.01)
CLICKS_S = np.asarray([0.02, 0.05, 0.1, 0.2])
"""The law: chance of a click by item."""


def law_batch(item_B: npt.NDArray[np.int64], clicked_B: npt.NDArray[np.bool_]) -> MiniBatch:
    rows = Jagged(item_B, np.arange(len(item_B) + 1, dtype=np.int64))
    return batch_of([deduplicate("item", {"item": rows})], clicked_B[:, None].astype(np.float32).tolist())


def taught(batches: list[MiniBatch], *, correct_sampling: bool = True) -> tuple[RecModel, Evaluator]:
    model = build_model(SCHEMA, MODEL, OPTIMIZER, seed=0)
    step, scores = Step(model, OPTIMIZER), Evaluator(["clicked"], window=4_000)
    for batch in batches:
        tensors = to_tensors([batch], SCHEMA, MODEL, correct_sampling=correct_sampling)
        scores.update(step.run(tensors).logits_BT, *scored_labels(tensors))
    return model, scores


def predictions(model: RecModel) -> F64:
    """By item."""
    batch = law_batch(np.arange(len(CLICKS_S)), np.zeros(len(CLICKS_S), np.bool_))
    return torch.sigmoid(model.predict(to_tensors([batch], SCHEMA, MODEL))).double().numpy()[:, 0]


def sampled_stream(rate: float) -> list[MiniBatch]:
    """60,000 impressions whose clicks follow the law, of which negatives are left out by the sessionizer's hash."""
    rng = np.random.default_rng(1)
    item = rng.integers(0, len(CLICKS_S), 60_000)
    clicked = rng.random(60_000) < CLICKS_S[item]
    ids = rng.integers(0, 2**63, 60_000).astype(np.uint64)
    kept = is_kept(JoinConfig(negative_rate=rate), clicked[:, None].astype(np.float32), ids, ids)
    places = np.flatnonzero(kept)
    return [
        replace(law_batch(item[part], clicked[part]), negative_rate=rate)
        for part in np.split(places, np.arange(256, len(places), 256))
    ]


def test_a_model_of_a_tenth_of_the_negatives_predicts_for_the_stream_as_it_happened() -> None:
    true_rate = CLICKS_S.mean()
    (whole, _), (corrected, scores) = taught(sampled_stream(1.0)), taught(sampled_stream(0.1))
    biased, sampled_scores = taught(sampled_stream(0.1), correct_sampling=False)
    # 10 %: the model remembers about 2,000 of the clicks, whose number has a standard error of 2 %; measured is 3 %.
    assert predictions(whole).mean() == pytest.approx(true_rate, rel=0.1)
    assert predictions(corrected).mean() == pytest.approx(true_rate, rel=0.1)
    assert predictions(biased).mean() > 4 * true_rate
    found, as_sampled = scores.report()["clicked"]["window"], sampled_scores.report()["clicked"]["window"]
    assert found["base_rate"] == pytest.approx(true_rate, rel=0.05)
    assert found["calibration"] == pytest.approx(1.0, rel=0.05)
    assert found["ne"] < 1.0
    assert as_sampled["base_rate"] > 4 * true_rate


def test_nothing_is_added_where_nothing_is_to_correct() -> None:
    labelling = to_tensors([law_batch(np.arange(4), np.zeros(4, np.bool_))], SCHEMA, MODEL).labelling
    assert (labelling.stage_B1, labelling.offset_B1, labelling.stands_for_B1) == (None, None, None)
    off = to_tensors(sampled_stream(0.1)[:1], SCHEMA, MODEL, correct_sampling=False).labelling
    assert off.offset_B1 is None
    assert isinstance(off.to(torch.device("cpu")), Labelling)
