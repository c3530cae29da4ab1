"""Dense columns of groups in the trainer: where a column is kept changes no bit of what enters the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from streams.errors import InvariantError
from streams.events.schema import EventSchema, FeatureGroup
from streams.ikjt.dedup import deduplicate
from streams.ikjt.partial import as_windows
from streams.ikjt.windows import Group, PartialIkjt
from streams.minibatch import MiniBatch
from streams.reshape import slice_batch
from tests.trainer.sample import model_of, optimizer_of, random_batch, schema_of
from trainer import parity
from trainer.dense_input import dense_input
from trainer.model import RecModel, build_model
from trainer.parity import permuted_batch, run_parity
from trainer.step import Step
from trainer.tensors import to_tensors

MODEL, OPTIMIZER = model_of(), optimizer_of()
PROFILE = FeatureGroup(name="profile", features=("user", "tags"))
HISTORY = FeatureGroup(name="history", features=("history",))
PLAIN = replace(schema_of(dense=4), groups=(PROFILE, HISTORY))
# Two columns with the profile, against their order in the schema, one with the history; x2 stays with the samples.
GROUPED = replace(PLAIN, groups=(replace(PROFILE, dense=("x3", "x1")), replace(HISTORY, dense=("x0",))))
Form = Callable[[Group, MiniBatch], Group]
FORMS: dict[str, Form] = {
    "exact": lambda group, _batch: group,
    "partial": lambda group, batch: as_windows(group.to_exact(), batch.lineage.session_id),
}


def plain_batch(seed: int, num: int = 24, *, constant: bool = True) -> MiniBatch:
    """No column is in a group. `constant`: those of GROUPED's groups are the same wherever the group's ids are."""
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, num, dense=4)
    profile, item, similar, history = batch.groups
    if constant:
        dense = batch.dense.copy()
        dense[:, [3, 1]] = rng.normal(size=(profile.num_rows, 2))[profile.inverse]
        dense[:, 0] = rng.normal(size=history.num_rows)[history.inverse]
        batch = replace(batch, dense=dense)
    return replace(batch, groups=(profile, history, item, similar))


def regrouped(batch: MiniBatch, form: Form = FORMS["exact"], schema: EventSchema = GROUPED) -> MiniBatch:
    """The same samples, with the columns in the groups of the schema."""
    column = {name: k for k, name in enumerate(schema.dense_names)}
    groups = []
    for group, declared in zip(batch.groups, schema.all_groups, strict=True):
        dense = batch.dense[:, [column[name] for name in declared.dense]] if declared.dense else None
        groups.append(form(deduplicate(group.group, group.expand(), dense, declared.dense), batch))
    own = batch.dense[:, [column[name] for name in schema.ungrouped_dense]]
    moved = replace(batch, dense=own, groups=tuple(groups))
    moved.validate()
    return moved


def same_bits(one: RecModel, other: RecModel) -> bool:
    theirs = other.state()
    return all(torch.equal(tensor, theirs[name]) for name, tensor in one.state().items())


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_the_dense_input_has_the_schemas_columns_in_its_order(form: str, *, constant: bool) -> None:
    batches = [plain_batch(seed, num, constant=constant) for seed, num in ((0, 9), (1, 1), (2, 20))]
    moved = [regrouped(batch, FORMS[form]) for batch in batches]
    assert moved[0].dense.shape == (9, 1)
    if form == "partial":
        assert isinstance(moved[0].groups[1], PartialIkjt)
    for deduplicated in (True, False):
        step = to_tensors(moved, GROUPED, MODEL, deduplicated=deduplicated)
        assert step.dense_BK.is_contiguous()
        assert torch.equal(step.dense_BK, torch.from_numpy(np.concatenate([batch.dense for batch in batches])))


@pytest.mark.parametrize("form", FORMS)
def test_a_model_trains_to_the_same_bits_whether_its_columns_are_in_groups_or_not(form: str) -> None:
    plain, ours = (build_model(schema, MODEL, OPTIMIZER, seed=3) for schema in (PLAIN, GROUPED))
    assert same_bits(plain, ours)
    for seed in range(6):
        batch = plain_batch(seed)
        moved = regrouped(batch, FORMS[form])
        assert [group.num_rows for group in moved.groups] == [group.num_rows for group in batch.groups]
        # Windows are summed in another order: the same rows, stored whole, are what gives the same bits.
        whole = to_tensors([replace(moved, groups=tuple(group.to_exact() for group in moved.groups))], GROUPED, MODEL)
        torch.testing.assert_close(ours.predict(to_tensors([moved], GROUPED, MODEL)), ours.predict(whole))
        one = Step(plain, OPTIMIZER).run(to_tensors([batch], PLAIN, MODEL))
        other = Step(ours, OPTIMIZER).run(whole)
        assert torch.equal(one.logits_BT, other.logits_BT)
        assert torch.equal(one.loss, other.loss)
        assert same_bits(plain, ours)


def test_a_model_of_one_grouping_goes_on_from_the_state_of_the_other() -> None:
    plain, ours = (build_model(schema, MODEL, OPTIMIZER, seed) for schema, seed in ((PLAIN, 3), (GROUPED, 4)))
    Step(plain, OPTIMIZER).run(to_tensors([plain_batch(0)], PLAIN, MODEL))
    ours.load_state(plain.state())
    batch = plain_batch(1)
    Step(plain, OPTIMIZER).run(to_tensors([batch], PLAIN, MODEL))
    Step(ours, OPTIMIZER).run(to_tensors([regrouped(batch)], GROUPED, MODEL))
    assert same_bits(plain, ours)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_deduplication_changes_nothing_where_groups_hold_dense_columns(form: str, *, constant: bool) -> None:
    """Columns that change more often than their group's ids make more rows, and no other model."""
    batches = [regrouped(plain_batch(seed, constant=constant), FORMS[form]) for seed in range(20)]
    report = run_parity(batches, GROUPED, MODEL, OPTIMIZER, seed=1, every=5)
    assert report.ok, report.reasons
    ours, everyone = report.rows["profile"]
    assert (ours < everyone) is constant
    assert report.oracle_max_diff < 1e-9


def test_all_dense_columns_may_be_in_groups() -> None:
    schema = replace(PLAIN, groups=(replace(PROFILE, dense=("x2", "x3", "x1")), replace(HISTORY, dense=("x0",))))
    batch = plain_batch(5)
    moved = regrouped(batch, schema=schema)
    assert moved.dense.shape == (24, 0)
    assert np.array_equal(dense_input(moved, schema), batch.dense)
    report = run_parity([regrouped(plain_batch(n), schema=schema) for n in range(4)], schema, MODEL, OPTIMIZER, seed=1)
    assert report.ok, report.reasons


@pytest.mark.parametrize("form", FORMS)
def test_permuted_samples_take_their_columns_along(form: str) -> None:
    batch = regrouped(plain_batch(6), FORMS[form])
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = permuted_batch(batch, order)
    assert np.array_equal(dense_input(shuffled, GROUPED), dense_input(batch, GROUPED)[order])


def test_parity_fails_where_a_groups_columns_reach_other_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: the deduplicated path gives two samples each other's columns, as a wrong expansion would."""
    honest = to_tensors

    def swapped(batches: list[MiniBatch], schema: EventSchema, model: object, *, deduplicated: bool = True) -> object:
        step = honest(batches, schema, model, deduplicated=deduplicated)  # type: ignore[arg-type]
        return replace(step, dense_BK=step.dense_BK.flip(0)) if deduplicated else step

    monkeypatch.setattr(parity, "to_tensors", swapped)
    report = run_parity([regrouped(plain_batch(seed)) for seed in range(2)], GROUPED, MODEL, OPTIMIZER, seed=1)
    assert not report.ok
    assert {reason[:3] for reason in report.reasons} >= {"(a)", "(b)"}


def test_an_empty_mini_batch_has_an_empty_input() -> None:
    nothing = slice_batch(regrouped(plain_batch(7)), 0, 0)
    assert dense_input(nothing, GROUPED).shape == (0, 4)


def test_columns_of_another_schema_are_refused_by_name() -> None:
    plain, moved = plain_batch(8), regrouped(plain_batch(8))
    with pytest.raises(InvariantError, match=r"dense columns \('x3', 'x1'\) in group profile .*another schema"):
        to_tensors([moved], PLAIN, MODEL)
    with pytest.raises(InvariantError, match=r"dense columns \(\) in group profile .* has \('x3', 'x1'\)"):
        to_tensors([plain], GROUPED, MODEL)
    with pytest.raises(InvariantError, match=r"has 4 dense columns of its samples .*\['x2'\]"):
        to_tensors([replace(moved, dense=plain.dense)], GROUPED, MODEL)
    other = replace(moved.groups[0].to_exact(), dense_names=("x3", "height"))
    with pytest.raises(InvariantError, match="height"):
        dense_input(replace(moved, groups=(other, *moved.groups[1:])), GROUPED)
