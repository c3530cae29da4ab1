"""`recd inspect` over a lineage that `recd trainer` left behind in real Kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra import cli
from tests.fault.trainer_process import TrainerHome, make_home
from tests.trainer.kafka_kit import make_topic
from tests.trainer.lineage_kit import mini_batch


@pytest.fixture(scope="module")
def home(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> TrainerHome:
    """Two steps of two mini-batches, trained and saved."""
    topic = make_topic(kafka, "trainer-inspect")
    topic.write(*(mini_batch(number, sequence) for number in range(2) for sequence in range(2)))
    topic.end()
    made = make_home(tmp_path_factory.mktemp("inspect"), topic, every_steps=1)
    code, summary = made.run("--exit-at-end")
    assert (code, summary["lineage_samples"]) == (0, 24)
    return made


def inspect(home: TrainerHome, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """The JSON lines of the command, without the summary."""
    assert cli.run(["inspect", *arguments, "-c", str(home.path / "recd.toml"), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()][:-1]


def test_a_mini_batch_is_shown_with_its_groups(home: TrainerHome, capsys: pytest.CaptureFixture[str]) -> None:
    [shown] = inspect(home, capsys, "batch", "--partition", "1", "--offset", "1")
    assert (shown["sequence"], shown["samples"], shown["sessions"]) == (1, 6, 3)
    assert shown["groups"]["who"]["rows"] <= 3
    assert shown["content_hash"] == f"{mini_batch(1, 1).content_hash:016x}"


def test_an_end_record_is_shown_as_one(home: TrainerHome, capsys: pytest.CaptureFixture[str]) -> None:
    [shown] = inspect(home, capsys, "batch", "--partition", "0", "--offset", "2")
    assert shown["ends_epoch"] == 0


def test_a_checkpoint_is_verified_and_shown(home: TrainerHome, capsys: pytest.CaptureFixture[str]) -> None:
    [shown] = inspect(home, capsys, "checkpoint")
    assert shown["verified"]
    assert shown["samples"] == 24
    assert shown["progress"]["positions"]["0"] == {"next_offset": 2, "next_sequence": 2}
    assert shown["tensors"]["model.table.items"] == ["float32", 48, 4]


def test_ledger_lines_name_their_mini_batches(home: TrainerHome, capsys: pytest.CaptureFixture[str]) -> None:
    [shown] = inspect(home, capsys, "ledger", "--step", "1")
    assert (shown["step"], shown["kind"]) == (1, "trained")
    assert shown["batches"][0]["content_hash"] == mini_batch(0, 0).content_hash
    assert len(inspect(home, capsys, "ledger", "--last", "9")) >= 2


def test_what_is_not_there_is_said_in_words(home: TrainerHome, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["inspect", "checkpoint", "--step", "99", "-c", str(home.path / "recd.toml")]) == 2
    assert "holds no checkpoint of step 99" in capsys.readouterr().err
