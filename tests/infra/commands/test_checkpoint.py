"""`recd checkpoint` over a lineage that a trainer left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra import cli
from infra.clock import Clock
from tests.trainer.lineage_kit import config, topic, trainer
from trainer.checkpoint.load import newest
from trainer.lease import Lease
from trainer.run_config import CHECKPOINTS

LIKE_THE_KIT = """
labels = [{name = "like", field = "like"}]
features = [{name = "user", field = "user", table = "users"}, {name = "item", field = "item", table = "items"}]
dense = [{name = "hour", field = "hour"}]
histories = [{name = "liked", table = "items", last = 5}]
groups = [{name = "who", features = ["user", "liked"]}]
event = {event_id = ["id"], user = "user", item = "item", time = "at"}
train.seed = 3
train.window_samples = 50
topics.minibatches = "minibatches"
model.tables.users.rows = 32
model.tables.items.rows = 48
model.dim = 4
model.dense_layers = [4]
model.over_layers = [8]
model.pooling.liked = "attention"
model.attention = {heads = 1, feedforward = 8, max_length = 5}
"""
"""The configuration of `tests.trainer.lineage_kit`."""


@pytest.fixture
def lineage(tmp_path: Path) -> Path:
    """Checkpoints of steps 1, 2 and 3, and a configuration beside the directory."""
    assert cli.run(["init", str(tmp_path / "recd.toml"), "--for", "clicks"]) == 0
    trainer(config(tmp_path / "model", every_steps=1), topic(batches=3)).run()
    return tmp_path / "model"


def recd(lineage: Path, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """The JSON lines of the command, the summary last."""
    capsys.readouterr()
    where = ["-c", str(lineage.parent / "recd.toml"), "--set", f"checkpoint.directory={lineage}"]
    assert cli.run(["checkpoint", *arguments, *where, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def damage(path: Path) -> None:
    """One bit of the first file."""
    file = path / "tensors-00000.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def test_checkpoints_are_listed_newest_first_and_shown_whole(lineage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *lines, summary = recd(lineage, capsys, "list")
    assert [(line["step"], line["samples"]) for line in lines] == [(3, 36), (2, 24), (1, 12)]
    assert summary == {"event": "summary", "ok": True, "shown": 3, "damaged": 0}
    [shown, _] = recd(lineage, capsys, "inspect", "--step", "2")
    assert (shown["step"], shown["tensors"]["model.table.items"]) == (2, ["float32", 48, 4])


def test_damage_is_found_named_and_told_by_the_exit_code(lineage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [line["verified"] for line in recd(lineage, capsys, "verify")[:-1]] == [True] * 3
    damage(lineage / CHECKPOINTS / "step-000000000002")
    *lines, summary = recd(lineage, capsys, "verify", code=1)
    assert "is damaged: its SHA-256" in lines[1]["damage"]
    assert (summary["ok"], summary["damaged"]) == (False, 1)


def test_a_removal_is_told_first_and_keeps_the_newest_that_verifies(
    lineage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = lineage / CHECKPOINTS
    damage(directory / "step-000000000003")
    told = recd(lineage, capsys, "prune", "--keep", "1", "--dry-run")
    assert [Path(line["would_remove"]).name for line in told[:-1]] == ["step-000000000001"]
    assert len(list(directory.iterdir())) == 3
    done = recd(lineage, capsys, "prune", "--keep", "1")
    assert (done[-1]["removed"], done[-1]["num_bytes"]) == (1, told[-1]["num_bytes"])
    best = newest(directory).checkpoint
    assert best is not None
    assert best.manifest.progress.step == 2


def test_where_none_verifies_no_checkpoint_is_removed(lineage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (lineage / CHECKPOINTS).iterdir():
        damage(path)
    assert recd(lineage, capsys, "prune", "--keep", "1")[-1]["removed"] == 0


def test_nothing_is_removed_beside_a_trainer(lineage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lease = Lease.take(lineage, clock.now_ms(), 0, clock.sleep)
    [summary] = recd(lineage, capsys, "prune", "--keep", "1", code=2)
    assert "another trainer" in summary["error"]
    lease.release()
    assert len(list((lineage / CHECKPOINTS).iterdir())) == 3


def test_a_step_that_is_not_there_is_told_with_those_that_are(
    lineage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [summary] = recd(lineage, capsys, "inspect", "--step", "9", code=2)
    assert "holds no checkpoint of step 9 (steps: 3, 2, 1)" in summary["error"]


def test_a_table_grows_into_a_new_lineage_planned_first(lineage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = lineage.parent / "old.toml", lineage.parent / "recd.toml"
    old.write_text(f'{LIKE_THE_KIT}checkpoint.directory = "{lineage}"\n')
    new.write_text(LIKE_THE_KIT.replace("rows = 48", "rows = 96"))
    grown = lineage.parent / "grown"
    command = ["checkpoint", "migrate", "--from", str(old), "-c", str(new), "--set", f"checkpoint.directory={grown}"]
    capsys.readouterr()
    assert cli.run([*command, "--dry-run", "--json"]) == 0
    change, planned = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert "table items: grows from 48 to 96 rows" in change["change"]
    assert planned["goes_on"] == "at the same positions"
    assert not grown.exists()
    assert cli.run([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["path"] == str(grown / CHECKPOINTS / "step-000000000003")
    assert cli.run([*command, "--json"]) == 2, "it is there already"
