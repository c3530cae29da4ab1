"""What a feature's ids go through before their table: order, counts, refusals; deduplication changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from infra.config import from_values
from infra.metrics import PrometheusReporter
from infra.presets import minimal
from streams.errors import ConfigError
from streams.events.ids import hash_id
from streams.ikjt import Group, PartialIkjt, as_windows, transform_rows
from streams.ikjt.transforms import Bucketize, Clip, Direct, Filter, Hash, Missing, Truncate
from streams.minibatch import MiniBatch
from tests.trainer.lineage_kit import config, topic, trainer
from tests.trainer.sample import batch_of, ikjt_of, model_of, optimizer_of, random_batch, schema_of
from trainer import tensors
from trainer.baseline import OnlineLogisticRegression
from trainer.config import ModelConfig, TableConfig
from trainer.ids import Chain, TableRows, chain_of, first_rows, table_seed, to_table_rows
from trainer.model import build_model
from trainer.parity import run_parity
from trainer.run_config import TrainerConfig
from trainer.step import Step, Verdict
from trainer.tensors import to_tensors
from trainer.transforms import FeatureTransforms

SCHEMA = schema_of()
EVERYTHING = {
    "user": FeatureTransforms(clip=(-(2**61), 2**61)),
    "tags": FeatureTransforms(drop_ids=(3, 8), truncate=2, missing=5),
    "item": FeatureTransforms(keep_ids=(0, 1, 2, 5), missing=-7),
    "similar": FeatureTransforms(bucketize=(2, 4.5, 6)),
    "history": FeatureTransforms(clip=(-(2**60), 2**60), truncate=3, missing=11),
}


def model_with(transforms: Mapping[str, FeatureTransforms]) -> ModelConfig:
    return replace(model_of(), transforms=transforms)


def in_windows(batch: MiniBatch) -> MiniBatch:
    session_id = batch.lineage.session_id
    return replace(batch, groups=tuple(as_windows(group.to_exact(), session_id) for group in batch.groups))


def test_the_order_is_filter_clip_or_bucketize_truncate_missing_mapping() -> None:
    transforms = FeatureTransforms(missing=11, truncate=3, clip=(0, 9), drop_ids=(4, "none"))
    model = model_with({"history": transforms, "tags": FeatureTransforms(bucketize=(1, 2))})
    assert chain_of("history", SCHEMA, model).steps == (
        Filter(drop=(4, hash_id("none"))),
        Clip(0, 9),
        Truncate(3),
        Truncate(4),  # what attention reads at most
        Missing(11),
        Hash(51, table_seed("item")),
    )
    assert chain_of("tags", SCHEMA, model).steps == (Bucketize((1, 2)), Direct(9))
    assert chain_of("user", SCHEMA, model).steps == (Hash(50, table_seed("user")),)


@pytest.mark.parametrize("form", ["exact", "partial"])
def test_deduplication_changes_nothing_about_transformed_batches(form: str) -> None:
    batches = [random_batch(np.random.default_rng(seed), 24) for seed in range(10)]
    if form == "partial":
        batches = [in_windows(batch) for batch in batches]
        assert any(isinstance(group, PartialIkjt) for batch in batches for group in batch.groups)
    report = run_parity(batches, SCHEMA, model_with(EVERYTHING), optimizer_of(), seed=1, every=5)
    assert report.ok, report.reasons
    assert report.rows["profile"][0] < report.rows["profile"][1] == 10 * 24
    assert report.oracle_max_diff < 1e-9


def test_parity_fails_where_only_distinct_rows_skip_a_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: the deduplicated path forgets what an expanded batch, and the oracle, get."""

    def forgetful(group: Group, chains: Mapping[str, Chain]) -> TableRows:
        bare = {
            key: replace(chain, cleaning=tuple(step for step in chain.cleaning if not isinstance(step, Bucketize)))
            for key, chain in chains.items()
        }
        return to_table_rows(group, bare if group.num_rows < group.num_samples else chains)

    monkeypatch.setattr(tensors, "to_table_rows", forgetful)
    batches = [random_batch(np.random.default_rng(seed), 24) for seed in range(3)]
    transforms = {"tags": FeatureTransforms(bucketize=(2, 5))}
    report = run_parity(batches, SCHEMA, model_with(transforms), optimizer_of(), seed=1)
    assert {reason[:3] for reason in report.reasons} >= {"(a)", "(b)"}


@pytest.mark.parametrize("seed", range(3))
def test_both_forms_and_the_expanded_batch_mean_the_same_ids_and_count_the_same(seed: int) -> None:
    batches = [random_batch(np.random.default_rng(seed + k), 20) for k in range(2)]
    model = model_with(EVERYTHING)
    exact = to_tensors(batches, SCHEMA, model)
    windows = to_tensors([in_windows(batch) for batch in batches], SCHEMA, model)
    expanded = to_tensors(batches, SCHEMA, model, deduplicated=False)
    assert set(exact.ids_V.tolist()) == set(windows.ids_V.tolist())
    assert replace(windows.counts, ids=exact.counts.ids) == exact.counts
    trained = build_model(SCHEMA, model, optimizer_of(), seed=0)
    torch.testing.assert_close(trained.predict(windows), trained.predict(exact))
    assert exact.counts.ids_expanded == expanded.counts.ids
    assert exact.counts.missing == expanded.counts.missing
    assert exact.counts.out_of_range == expanded.counts.out_of_range
    assert all(exact.counts.missing[feature] > 0 for feature in ("tags", "item", "history"))


def test_missing_rows_are_counted_once_per_sample_and_only_where_a_row_is_declared() -> None:
    profile = ikjt_of("profile", [{"user": [1], "tags": [3]}] * 3 + [{"user": [2], "tags": [1]}])
    rest = [ikjt_of(key, [{key: []}] * 4) for key in ("item", "similar", "history")]
    batch = batch_of([profile, *rest], [[0, 0]] * 4, [[0, 0]] * 4)
    transforms = {"tags": FeatureTransforms(drop_ids=(3,), missing=5), "item": FeatureTransforms(missing=0)}
    step = to_tensors([batch, batch], SCHEMA, model_with(transforms))
    assert step.counts.missing == {"tags": 6, "item": 8}
    assert step.counts.out_of_range == {"tag": 0}


@pytest.mark.parametrize("identity", [-1, -2, 8, 9, 10, 2**63 - 1, -(2**63)])
def test_an_id_out_of_range_trains_the_declared_row_and_never_row_0_nor_another_table(identity: int) -> None:
    """Rows R - 1, R, R + 1 of nine, and negative ones."""
    profile = ikjt_of("profile", [{"user": [], "tags": [identity, 3]}] * 2)
    rest = [ikjt_of(key, [{key: []}] * 2) for key in ("item", "similar", "history")]
    step = to_tensors([batch_of([profile, *rest], [[1, 1], [0, 1]], [[0, 0]] * 2)], SCHEMA, model_of())
    model = build_model(SCHEMA, model_of(), optimizer_of(), seed=0)
    before = {name: rows.clone() for name, rows in model.tables.weights().items()}
    assert Step(model, optimizer_of()).run(step).verdict() is Verdict.LEARNED
    changed = {
        name: (rows != before[name]).any(1).nonzero()[:, 0].tolist() for name, rows in model.tables.weights().items()
    }
    assert changed == {"user": [], "item": [], "tag": [3, 8]}
    assert step.counts.out_of_range == {"tag": 2}


def test_no_id_of_a_step_is_negative_or_beyond_the_tables() -> None:
    model = model_with(EVERYTHING)
    num_rows = sum(table.rows for table in model.tables.values())
    for seed in range(5):
        ids_V = to_tensors([random_batch(np.random.default_rng(seed), 20)], SCHEMA, model).ids_V
        assert 0 <= int(ids_V.min()) <= int(ids_V.max()) < num_rows
    assert first_rows(model.tables)["tag"] == num_rows - 9


def test_the_logistic_regression_learns_from_transformed_ids() -> None:
    batch = batch_of([ikjt_of("user", [{"user": [u]} for u in (1, 2, 900)])], [[1], [1], [0]])
    clipped = batch_of([ikjt_of("user", [{"user": [u]} for u in (1, 2, 2)])], [[1], [1], [0]])
    chain = FeatureTransforms(clip=(0, 2)).chain()
    transforming = OnlineLogisticRegression(["user"], 0.1, transforms={"user": chain})
    plain = OnlineLogisticRegression(["user"], 0.1)
    for _ in range(2):
        assert transforming.run(batch).tolist() == plain.run(clipped).tolist()
    rows = batch.groups[0].features["user"]
    assert transform_rows(rows, chain).to_lists() == [[1], [2], [2]]


REFUSED: dict[str, Any] = {
    "model.transforms.history.keep_ids and model.transforms.history.drop_ids are both set; set one": FeatureTransforms(
        keep_ids=(1,), drop_ids=(2,)
    ),
    "model.transforms.history.clip and .*bucketize are both set": FeatureTransforms(clip=(0, 1), bucketize=(1,)),
    "model.transforms.history.keep_ids is empty": FeatureTransforms(keep_ids=()),
    "model.transforms.history.clip: low = 9 is above high = 3; swap them": FeatureTransforms(clip=(9, 3)),
    "model.transforms.history.bucketize: boundaries must ascend": FeatureTransforms(bucketize=(2, 2)),
    "model.transforms.history.truncate: last = 0 must be at least 1": FeatureTransforms(truncate=0),
    "model.transforms.history.missing: the declared id": FeatureTransforms(missing=2**63),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_transform_that_cannot_work_is_refused_by_its_key(words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        model_with({"history": REFUSED[words]})


@pytest.mark.parametrize(
    ("feature", "transforms", "words"),
    [
        ("histroy", FeatureTransforms(truncate=1), "model.transforms.histroy: no such feature"),
        ("tags", FeatureTransforms(missing=8), r"tags.missing = 8 has no row of its own.* 0..7"),
        ("tags", FeatureTransforms(missing=-1), r"tags.missing = -1 has no row of its own"),
        ("tags", FeatureTransforms(bucketize=(*range(8),)), r"bucketize gives ids 0..8.*tag.rows to 10"),
    ],
)
def test_a_transform_that_does_not_fit_its_table_or_feature_is_refused(
    feature: str, transforms: FeatureTransforms, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        model_with({feature: transforms}).check_against(SCHEMA)


def test_what_just_fits_a_direct_table_is_accepted() -> None:
    model_with({"tags": FeatureTransforms(missing=7, bucketize=(*range(7),))}).check_against(SCHEMA)
    roomy = {**model_of().tables, "tag": TableConfig(rows=9)}
    hashed = replace(model_of(), tables=roomy, transforms={"tags": FeatureTransforms(missing=-1)})
    hashed.check_against(SCHEMA)


def test_the_file_says_it_as_a_table_a_feature() -> None:
    values = minimal("t")
    values["model"]["transforms"] = {"recent": {"truncate": 20, "drop_ids": [0, "none"], "bucketize": [0.5, 3]}}
    transforms = from_values(values).model.transforms_of("recent")
    assert transforms == FeatureTransforms(truncate=20, drop_ids=(0, "none"), bucketize=(0.5, 3))
    assert [type(boundary) for boundary in transforms.bucketize or ()] == [float, int]


LOG = topic(batches=2)


def with_transforms(settings: TrainerConfig, **transforms: FeatureTransforms) -> TrainerConfig:
    return replace(settings, model=replace(settings.model, transforms=transforms))


def test_what_was_missing_or_out_of_range_is_exported_once_per_sample(tmp_path: Path) -> None:
    settings = config(tmp_path)
    tables = {**settings.model.tables, "items": TableConfig(rows=20, mapping="direct")}
    transforms = {"item": FeatureTransforms(drop_ids=(*range(10),), missing=3), "liked": FeatureTransforms(missing=0)}
    model = replace(settings.model, tables=tables, transforms=transforms)
    reporter = PrometheusReporter()
    assert trainer(replace(settings, model=model), LOG, reporter=reporter).run().lineage_samples == 24
    groups = [group for batches in LOG.values() for batch in batches for group in batch.groups]
    rows = {
        key: [row for g in groups if key in g.keys for row in g.expand()[key].to_lists()] for key in ("item", "liked")
    }
    items = [[i for i in row if i >= 10] for row in rows["item"]]
    read = reporter.registry.get_sample_value
    assert read("recd_missing_rows_total", {"feature": "item"}) == items.count([]) > 0
    assert read("recd_missing_rows_total", {"feature": "liked"}) == rows["liked"].count([]) > 0
    outside = sum(i >= 19 for row in items + rows["liked"] for i in row)
    assert read("recd_ids_out_of_range_total", {"table": "items"}) == outside > 0


def test_a_resume_with_other_transforms_is_refused_and_says_which(tmp_path: Path) -> None:
    settings = config(tmp_path)
    feature = settings.schema.feature_names[0]
    mine = with_transforms(settings, **{feature: FeatureTransforms(truncate=3, keep_ids=(1, "a"))})
    trainer(mine, LOG, max_steps=1).run()
    other = with_transforms(settings, **{feature: FeatureTransforms(truncate=2, keep_ids=(1, "a"))})
    with pytest.raises(ConfigError, match=rf"model\.transforms\.{feature}\.truncate: was 3, is 2\. Restore"):
        trainer(other, LOG)
    with pytest.raises(ConfigError, match=rf"model\.transforms: was {{'{feature}': .*, is None"):
        trainer(settings, LOG)
    assert trainer(mine, LOG).run().step > 1


def test_a_checkpoint_of_before_there_were_transforms_still_fits(tmp_path: Path) -> None:
    settings = config(tmp_path)
    assert "transforms" not in settings.weights_config()["model"]
    stated = with_transforms(settings, **{settings.schema.feature_names[0]: FeatureTransforms()})
    assert stated.weights_config() == settings.weights_config()
