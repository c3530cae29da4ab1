"""A checkpoint carried over to another model: what is kept is kept bit for bit, and training goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from infra.clock import Clock
from streams.errors import ConfigError
from streams.events.schema import EventSchema, FeatureGroup, Label, SparseFeature
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.minibatch import MiniBatch
from tests.trainer.lineage_kit import MODEL, SCHEMA, config, mini_batch, topic, trainer
from trainer.checkpoint.load import newest
from trainer.config import ModelConfig, TableConfig
from trainer.ledger import Kind, TopicIdentity
from trainer.ledger_file import read
from trainer.migrate.run import migrate, migration
from trainer.model import build_model
from trainer.run_config import CHECKPOINTS, LEDGER, TrainerConfig
from trainer.tensors import to_tensors

WIDER = replace(
    SCHEMA,
    labels=(*SCHEMA.labels, Label(name="share", field="share")),
    sparse=(SparseFeature(name="city", field="city", table="cities"), *SCHEMA.sparse),
    groups=(FeatureGroup(name="who", features=("city", "user", "liked")),),
)
"""A feature with a table of its own before the others, and a second task."""
WIDER_MODEL = replace(MODEL, tables={"cities": TableConfig(rows=8), **MODEL.tables})
ELSEWHERE = TopicIdentity(name="wider", topic_id="two", partitions=2)


def wider(batch: MiniBatch) -> MiniBatch:
    """The same samples with a city and the second label."""
    who, *rest = batch.groups
    features = {key: who.expand()[key] for key in who.keys}
    cities = Jagged.from_lists([[int(ids[0]) % 7] for ids in features["user"].to_lists()])
    return replace(
        batch,
        fingerprint=WIDER.fingerprint(),
        labels=np.concatenate([batch.labels, 1 - batch.labels], axis=1),
        groups=(deduplicate("who", {"city": cities, **features}), *rest),
    )


def under(settings: TrainerConfig, directory: Path, schema: EventSchema, model: ModelConfig) -> TrainerConfig:
    """The same run of another model in another directory, on a topic of its own where the schema differs."""
    checkpoint = replace(settings.checkpoint, directory=str(directory))
    name = settings.topic if schema is settings.schema else ELSEWHERE.name
    return replace(settings, schema=schema, model=model, checkpoint=checkpoint, topic=name)


def carry(was: TrainerConfig, now: TrainerConfig) -> tuple[str, ...]:
    """Plan and migrate; the plan."""
    asked = migration(was, now)
    migrate(was, now, asked, Clock(), lambda: ELSEWHERE)
    return asked.changes


def state_of(settings: TrainerConfig) -> dict[str, Tensor]:
    found = newest(settings.directory / CHECKPOINTS).checkpoint
    assert found is not None
    return found.tensors()


def logits(settings: TrainerConfig, batch: MiniBatch) -> Tensor:
    """Predictions from the newest checkpoint."""
    model = build_model(settings.schema, settings.model, settings.optimizer, seed=99)
    model.load_state(below("model.", state_of(settings)))
    return model.predict(to_tensors([batch], settings.schema, settings.model))


def below(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


@pytest.fixture
def trained(tmp_path: Path) -> TrainerConfig:
    """Three steps of the small model."""
    settings = config(tmp_path / "old")
    trainer(settings, topic(), max_steps=3).run()
    return settings


def test_nothing_changes_where_nothing_differs_and_the_lineage_goes_on_alike(
    trained: TrainerConfig, tmp_path: Path
) -> None:
    twin = under(trained, tmp_path / "twin", SCHEMA, MODEL)
    assert carry(trained, twin) == ()
    trainer(twin, topic()).run()
    trainer(trained, topic()).run()
    one, other = state_of(twin), state_of(trained)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [line.kind for line in read(twin.directory / LEDGER)].count(Kind.MIGRATED) == 1


def test_an_added_feature_and_task_leave_every_kept_prediction_as_it_was(
    trained: TrainerConfig, tmp_path: Path
) -> None:
    now = under(trained, tmp_path / "new", WIDER, WIDER_MODEL)
    changes = carry(trained, now)
    assert [change.split(":")[0] for change in changes] == ["table cities", "feature city", "task share"]
    batch = mini_batch(1, 5)
    before, after = logits(trained, batch), logits(now, wider(batch))
    torch.testing.assert_close(after[:, :1], before, rtol=0, atol=1e-6)


def test_what_is_added_begins_like_a_fresh_model_and_learns(trained: TrainerConfig, tmp_path: Path) -> None:
    now = under(trained, tmp_path / "new", WIDER, WIDER_MODEL)
    carry(trained, now)
    fresh = build_model(WIDER, WIDER_MODEL, now.optimizer, now.train.seed).state()
    begun = state_of(now)
    assert torch.equal(begun["model.table.cities"], fresh["table.cities"])
    assert torch.equal(begun["model.dense.over.model.1.weight"][1], fresh["dense.over.model.1.weight"][1])
    log = {number: [wider(batch) for batch in batches] for number, batches in topic().items()}
    assert trainer(now, log).run().step == 9, "three steps carried over, six on a topic read from its beginning"
    learned = state_of(now)
    for name in ("model.table.cities", "model.dense.linear.weight", "model.dense.over.model.0._mlp.0._linear.weight"):
        assert not torch.equal(learned[name], begun[name]), name


def test_what_was_added_and_is_dropped_again_leaves_the_same_bits(trained: TrainerConfig, tmp_path: Path) -> None:
    between = under(trained, tmp_path / "between", WIDER, WIDER_MODEL)
    back = replace(under(trained, tmp_path / "back", SCHEMA, MODEL), topic=ELSEWHERE.name)
    carry(trained, between)
    assert carry(between, back) == (
        "table cities: dropped",
        "feature city: dropped, its terms with it",
        "task share: dropped",
    )
    one, other = state_of(trained), state_of(back)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_grown_table_predicts_the_same_bits(trained: TrainerConfig, tmp_path: Path) -> None:
    grown = replace(MODEL, tables={"users": TableConfig(rows=64), "items": TableConfig(rows=144)})
    now = under(trained, tmp_path / "new", SCHEMA, grown)
    carry(trained, now)
    assert torch.equal(logits(now, mini_batch(1, 5)), logits(trained, mini_batch(1, 5)))
    assert trainer(now, topic()).run().step == 6


def test_a_grown_direct_table_keeps_its_rows_and_the_row_of_ids_out_of_range(tmp_path: Path) -> None:
    def direct(rows: int) -> ModelConfig:
        return replace(MODEL, tables={**MODEL.tables, "items": TableConfig(rows=rows, mapping="direct")})

    was = replace(config(tmp_path / "old"), model=direct(41))
    trainer(was, topic(), max_steps=3).run()
    now = under(was, tmp_path / "new", SCHEMA, direct(50))
    carry(was, now)
    before, after = state_of(was)["model.table.items"], state_of(now)["model.table.items"]
    assert torch.equal(after[:40], before[:40])
    assert torch.equal(after[-1], before[-1])
    assert torch.equal(logits(now, mini_batch(1, 5)), logits(was, mini_batch(1, 5)))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (replace(MODEL, dim=8), "model.dim: was 4, is 8"),
        (replace(MODEL, pooling={}), "pooling of feature liked: was 'attention', is 'mean'"),
        (replace(MODEL, tables={**MODEL.tables, "users": TableConfig(rows=16)}), "rows cannot be taken away"),
        (replace(MODEL, tables={**MODEL.tables, "users": TableConfig(rows=40)}), "a multiple of 32, such as 64"),
        (replace(MODEL, tables={**MODEL.tables, "users": TableConfig(rows=32, mapping="direct")}), "users.mapping"),
    ],
)
def test_what_cannot_be_bridged_is_refused_by_name(
    trained: TrainerConfig, tmp_path: Path, model: ModelConfig, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        migration(trained, under(trained, tmp_path / "new", SCHEMA, model))
    assert not (tmp_path / "new").exists()


def test_a_directory_that_holds_something_is_left_alone(trained: TrainerConfig) -> None:
    with pytest.raises(ConfigError, match=r"is not empty"):
        migration(trained, trained)
