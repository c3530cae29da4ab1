"""The format of the topic as a user configures it: what cannot work is refused at start, by the key's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import cli
from infra.config import load
from infra.config_file import commented, resolved
from infra.presets import minimal
from streams.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recd.toml"
    path.write_text(commented(minimal("my-topic")), encoding="utf-8")
    return path


REGISTRY = 'format.registry="http://127.0.0.1:8081"'


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (['format.name="avro"'], "set format.registry"),
        (['format.name="protobuf"'], "set format.registry"),
        ([REGISTRY], "format.registry is set, but format.name is json"),
        (['format.name="arrow"', REGISTRY], "format.registry is set, but format.name is arrow"),
        (['format.name="avro"', 'format.registry="localhost:8081"'], "begins with http"),
        (['format.name="avro"', 'format.registry="http://a:8081, b:8081"'], "format.registry: 'b:8081'"),
        (['format.name="avro"', 'format.registry="http://me:hunter2@a:8081"'], "format.registry_user"),
        (['format.name="avro"', REGISTRY, 'format.registry_password="x"'], "format.registry_user"),
        (['format.registry_user="me"'], "without format.registry"),
        (['format.name="avro"', REGISTRY, "format.registry_timeout_ms=0"], "format.registry_timeout_ms"),
        (['format.name="csv"'], "format.name"),
    ],
)
def test_what_cannot_work_is_refused_by_its_key(file: Path, overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(file, overrides, {})
    assert told in str(refused.value)


def test_a_registry_may_be_given_with_a_user_whose_password_is_not_shown(file: Path) -> None:
    secret = {"RECD__FORMAT__REGISTRY_PASSWORD": "hunter2"}
    config = load(file, ['format.name="avro"', REGISTRY, 'format.registry_user="me"'], secret)
    assert config.format.registry_password == secret["RECD__FORMAT__REGISTRY_PASSWORD"]
    assert "hunter2" not in resolved(config)
    assert "hunter2" not in repr(config)


def test_ingest_sends_json_and_says_so_where_the_topic_is_of_another_format(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("{}\n")
    with pytest.raises(SystemExit) as ended:
        cli.main(["ingest", str(log), "--config", str(file), "--set", 'format.name="arrow"'])
    assert ended.value.code == 2
    assert "recd ingest sends JSON, but format.name is arrow" in capsys.readouterr().err
