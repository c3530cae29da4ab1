"""The outcomes' topic as a user configures it: what of it is its own, and what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra import cli
from infra.config import Config, load
from infra.config_file import commented, resolved
from infra.presets import minimal
from streams.errors import ConfigError
from streams.events.roles import OutcomeRoles
from streams.inputs import Input

TWO = {
    "event": minimal("views")["event"] | {"default_kind": "impression", "impression": "of"},
    "topics": minimal("views")["topics"] | {"outcomes": "clicks"},
}
REGISTRY = 'format.registry="http://127.0.0.1:8081"'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(directory: Path, **sections: Any) -> Path:  # noqa: ANN401  (sections hold any value)
    path = directory / "recd.toml"
    path.write_text(commented(minimal("views") | TWO | sections), encoding="utf-8")
    return path


def refusal(file: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load(file, overrides, {})
    return str(refused.value)


def test_the_topic_of_outcomes_has_roles_of_its_own_and_the_interactions_keep_theirs(tmp_path: Path) -> None:
    own = {"user": "who", "event_id": ["of", "at"], "labels": {"label": "paid"}}
    usual = load(written(tmp_path), environ={})
    labels = {usual.labels[0].name: "paid"}
    path = written(tmp_path, outcomes=own | {"labels": labels})
    config = load(path, ["outcomes.time_unit=s"], {})
    assert config.outcomes == OutcomeRoles(user="who", event_id=("of", "at"), time_unit="s", labels=labels)
    roles = config.roles_of(Input.OUTCOMES)
    assert (roles.user, roles.event_id, roles.time_unit, roles.impression) == ("who", ("of", "at"), "s", "of")
    assert config.roles_of(Input.INTERACTIONS) == config.event == usual.event
    assert config.schema.outcomes == config.outcomes
    assert usual.schema.outcomes is None, "an empty section is none, or fingerprints would change"
    again = tmp_path / "resolved.toml"
    again.write_text(resolved(config))
    assert load(again, environ={}) == config


@pytest.mark.parametrize(
    ("said", "key"),
    [("outcomes.user=who", "outcomes.user"), ('outcomes.kind=""', "outcomes.kind"), ("format.outcomes=arrow", None)],
)
def test_what_is_said_of_outcomes_needs_their_topic(tmp_path: Path, said: str, key: str | None) -> None:
    path = written(tmp_path, topics=minimal("views")["topics"])
    key = key or "format.outcomes"
    assert f"{key} is set, but there is no topic of outcomes; name it in topics.outcomes, or remove {key}" in refusal(
        path, said
    )


def test_either_section_may_say_by_which_field_outcomes_refer_to_their_impressions(tmp_path: Path) -> None:
    path = written(tmp_path, event=minimal("views")["event"] | {"default_kind": "impression"})
    told = refusal(path)
    assert "event.impression names no field, but topics.outcomes is set" in told
    assert "in outcomes.impression, if only they have it" in told
    assert load(path, ["outcomes.impression=of"], {}).roles_of(Input.OUTCOMES).impression == "of"
    assert load(path, ["event.impression=of"], {}).roles_of(Input.OUTCOMES).impression == "of"


def test_kinds_must_leave_the_topic_of_outcomes_some(file: Path) -> None:
    kinds = ["event.kind=type", 'event.kinds={ view = "impression" }']
    assert 'no value of event.kinds means "outcome"; name one there or in outcomes.kinds' in refusal(file, *kinds)
    assert load(file, [*kinds, 'outcomes.kind=""'], {}).roles_of(Input.OUTCOMES).kind is None
    assert load(file, [*kinds, 'outcomes.kinds={ tap = "outcome" }'], {}).event.kind == "type"


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("outcomes.usr=x", "outcomes.usr is no key of recd (from --set outcomes.usr); did you mean 'user'?"),
        ("outcomes.labels.lable=x", "outcomes.labels.lable: there is no label lable; name one of [[labels]]"),
        ("outcomes.time_unit=hours", "outcomes.time_unit = 'hours' (from --set outcomes.time_unit)"),
        ("outcomes.event_id=[]", "outcomes.event_id names no field"),
        ('outcomes.kinds={ tap = "outcome" }', "set outcomes.kind"),
        ("format.outcomes=csv", "format.outcomes"),
        ("format.outcomes=avro", "format.outcomes is avro, whose messages name a schema by its number; set format.reg"),
    ],
)
def test_what_cannot_work_is_refused_by_its_key(file: Path, override: str, told: str) -> None:
    assert told in refusal(file, override)


def test_each_topic_may_have_a_format_and_the_registry_is_of_the_one_that_needs_it(file: Path) -> None:
    def formats(*overrides: str) -> list[tuple[str, str]]:
        config: Config = load(file, overrides, {})
        return [(its.name, its.registry) for its in map(config.format.of, Input)]

    assert formats("format.outcomes=arrow") == [("json", ""), ("arrow", "")]
    assert formats("format.outcomes=avro", REGISTRY) == [("json", ""), ("avro", "http://127.0.0.1:8081")]
    assert formats("format.name=avro", "format.outcomes=json", REGISTRY)[1] == ("json", "")
    assert formats("format.name=protobuf", REGISTRY) == [("protobuf", "http://127.0.0.1:8081")] * 2
    told = refusal(file, "format.outcomes=arrow", REGISTRY)
    assert "format.name is json and format.outcomes is arrow, which needs no registry" in told


def test_ingest_looks_at_the_format_of_the_topic_that_it_fills(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("{}\n")
    with pytest.raises(SystemExit) as ended:
        cli.main(["ingest", str(log), "--outcomes", "-c", str(file), "--set", "format.outcomes=arrow"])
    assert ended.value.code == 2
    assert 'format.outcomes is arrow; set format.outcomes = "json"' in capsys.readouterr().err
