"""Predict, score, learn; and a batch that cannot be learned from changes nothing, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from streams.errors import ConfigError
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.minibatch import MiniBatch
from tests.trainer.sample import batch_of, model_of, optimizer_of, random_batch, schema_of
from trainer.config import DenseOptimizerName, OptimizerConfig
from trainer.model import RecModel, build_model
from trainer.parity import row_gradients
from trainer.step import Step, Verdict, clipped, first_half
from trainer.tensors import StepBatch, to_tensors

SCHEMA, MODEL = schema_of(), model_of()


def tensors_of(seed: int, num: int = 24) -> StepBatch:
    return to_tensors([random_batch(np.random.default_rng(seed), num)], SCHEMA, MODEL)


def bits(model: RecModel) -> dict[str, Tensor]:
    """Everything but the lineage's step count, which counts skipped steps too."""
    return {name: tensor.clone() for name, tensor in model.state().items() if name != "steps"}


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(tensor.view(torch.uint8), other[name].view(torch.uint8)) for name, tensor in one.items())


def view_of(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.reshape(-1).contiguous() for name, tensor in state.items()}


def trained(name: DenseOptimizerName = "adagrad", steps: int = 3) -> tuple[RecModel, Step]:
    model = build_model(SCHEMA, MODEL, optimizer_of(name), seed=1)
    step = Step(model, optimizer_of(name))
    for seed in range(steps):
        assert step.run(tensors_of(seed)).verdict() is Verdict.LEARNED
    return model, step


def poisoned(kind: str) -> StepBatch:
    """A batch whose label is fine and whose gradient is not."""
    batch = tensors_of(7)
    if kind == "inf in dense":
        batch.dense_BK[3, 0] = torch.inf
    elif kind == "huge dense":
        batch.dense_BK[3, 0] = 3e38
    else:
        batch.dense_BK[3, 1] = torch.nan
    return batch


@pytest.mark.parametrize("name", ["adagrad", "adam"])
@pytest.mark.parametrize("kind", ["inf in dense", "huge dense", "nan in dense"])
@pytest.mark.parametrize("steps", [0, 3])
def test_a_batch_that_is_not_finite_changes_no_bit(name: DenseOptimizerName, kind: str, steps: int) -> None:
    model, step = trained(name, steps)
    before = view_of(bits(model))
    result = step.run(poisoned(kind))
    assert result.verdict() is Verdict.NOT_FINITE
    assert bool(result.loss.isnan())
    assert same_bits(view_of(bits(model)), before)


def test_a_finite_loss_with_a_gradient_that_is_not_is_refused() -> None:
    model, step = trained()
    state = model.state()
    for name, tensor in state.items():
        if name.startswith("table."):
            tensor.zero_()
    # Times rows of 0 it hardly moves the loss; the gradient of those rows is so large that its square is infinite.
    state["dense.linear.weight"].fill_(1e30)
    before = view_of(bits(model))
    batch = tensors_of(7)
    assert bool(first_half(model, batch).loss.isfinite())
    assert step.run(batch).verdict() is Verdict.NOT_FINITE
    assert same_bits(view_of(bits(model)), before)


def test_training_goes_on_after_a_skipped_batch_as_if_it_had_not_been() -> None:
    (hurt, step), (calm, other) = trained("adam"), trained("adam")
    step.run(poisoned("nan in dense"))
    step.run(tensors_of(8))
    other.run(tensors_of(8))
    assert same_bits(view_of(bits(hurt)), view_of(bits(calm)))


def test_a_batch_without_any_label_is_no_step_and_has_no_loss() -> None:
    model, step = trained()
    before = view_of(bits(model))
    mini = random_batch(np.random.default_rng(5), 6)
    mini.labels[:] = np.nan
    result = step.run(to_tensors([mini], SCHEMA, MODEL))
    assert result.verdict() is Verdict.NO_WEIGHT
    assert bool(result.loss.isnan())
    assert same_bits(view_of(bits(model)), before)


def test_an_empty_batch_never_reaches_the_model() -> None:
    model, step = trained()
    before = view_of(bits(model))
    result = step.run(to_tensors([empty_batch()], SCHEMA, MODEL))
    assert result.verdict() is Verdict.NO_WEIGHT
    assert result.logits_BT.shape == (0, 2)
    assert same_bits(view_of(bits(model)), before)


def empty_batch() -> MiniBatch:
    nothing = np.empty(0, np.int32)
    groups = [
        Ikjt(group.name, {key: Jagged.from_lists([]) for key in group.features}, nothing) for group in SCHEMA.all_groups
    ]
    full = batch_of(groups, [[0, 0]], [[0, 0]])
    return MiniBatch(
        partition=0, sequence=0, watermark_ms=0, fingerprint=0, lineage=full.lineage,
        labels=full.labels[:0], dense=full.dense[:0], groups=full.groups,
    )  # fmt: skip


def test_scores_are_taken_before_the_update() -> None:
    model, step = trained()
    batch = tensors_of(9)
    expected = model.predict(batch)
    result = step.run(batch)
    torch.testing.assert_close(result.logits_BT, expected, rtol=0, atol=1e-6)
    assert not torch.allclose(model.predict(batch), expected)


def test_the_loss_is_the_mean_over_labelled_samples_and_tasks() -> None:
    model, step = trained()
    mini = random_batch(np.random.default_rng(6), 9)
    mini.labels[2, 1] = np.nan
    batch = to_tensors([mini], SCHEMA, MODEL)
    logits, labels = model.predict(batch).double(), torch.from_numpy(mini.labels).double()
    known = ~labels.isnan()
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(logits[known], labels[known])
    assert float(step.run(batch).loss) == pytest.approx(float(entropy), rel=1e-5)


def test_the_model_learns_a_batch_by_heart() -> None:
    _, step = trained(steps=0)
    batch = tensors_of(1)
    losses = [float(step.run(batch).loss) for _ in range(100)]
    assert losses[-1] < 0.6 * losses[0]


def test_the_same_seed_and_batches_give_the_same_bits() -> None:
    assert same_bits(view_of(bits(trained()[0])), view_of(bits(trained()[0])))


def test_a_joined_step_scores_its_mini_batches_as_they_would_be_alone() -> None:
    model, _ = trained()
    rng = np.random.default_rng(11)
    parts = [random_batch(rng, 5), random_batch(rng, 8)]
    alone = torch.cat([model.predict(to_tensors([part], SCHEMA, MODEL)) for part in parts])
    torch.testing.assert_close(model.predict(to_tensors(parts, SCHEMA, MODEL)), alone)


def test_warm_up_rises_from_the_first_step_and_ends_at_one() -> None:
    config = OptimizerConfig(warm_up_steps=4)
    assert [config.rate_factor(step) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert {OptimizerConfig().rate_factor(step) for step in (0, 1, 10**9)} == {1.0}


def test_rates_fall_after_the_warm_up_and_stop_falling_at_the_floor() -> None:
    config = OptimizerConfig(warm_up_steps=4, decay_steps=100, floor=0.25)
    assert [config.rate_factor(step) for step in (3, 4, 304, 1504)] == [1.0, 1.0, 0.5, 0.25]
    assert config.rate_factor(10**9) == 0.25
    factors = [config.rate_factor(step) for step in range(4, 2000)]
    assert factors == sorted(factors, reverse=True)


@pytest.mark.parametrize("floor", [0.0, 1.5, -1.0])
def test_a_floor_at_which_nothing_or_too_much_is_learned_is_refused(floor: float) -> None:
    with pytest.raises(ConfigError, match=r"optimizer.floor = .* above 0 and at most 1"):
        OptimizerConfig(floor=floor)


def test_a_sample_with_a_steep_loss_teaches_the_tables_no_more_than_the_limit() -> None:
    model, batch = trained()[0], random_batch(np.random.default_rng(11), 24)
    ours, plain = (to_tensors([batch], SCHEMA, MODEL, deduplicated=each) for each in (True, False))
    free = first_half(model, plain).lookup_ND
    steep = first_half(model, plain, 0.05).lookup_ND
    assert steep.norm() < free.norm()
    for touched, other in zip(
        row_gradients(ours, first_half(model, ours, 0.05).lookup_ND), row_gradients(plain, steep), strict=True
    ):
        torch.testing.assert_close(touched, other)
    assert torch.equal(first_half(model, plain, 1e6).lookup_ND, free)


def test_the_limit_is_of_a_samples_own_loss_and_leaves_shorter_ones_alone() -> None:
    grad_BFD = torch.tensor([[[3.0, 4.0]], [[0.3, 0.4]], [[torch.nan, 0.0]]])
    short_BFD = clipped(grad_BFD, weight=torch.tensor(2.0), norm=1.0)
    torch.testing.assert_close(short_BFD[:2], torch.tensor([[[0.3, 0.4]], [[0.3, 0.4]]]))
    assert short_BFD[2].isnan().any()
