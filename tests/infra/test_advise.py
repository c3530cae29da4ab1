"""`recd advise` on streams of known laws, on a topic, and on real logs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kuairand
from infra import cli, presets
from infra.advise.sampling import Sampled, gather
from infra.advise.source import Wanted, of_files
from infra.config import Config, from_values, load
from infra.config_file import commented
from infra.demo import inputs, movielens
from infra.demo.synthetic import Laws, SyntheticLog, draw
from streams.advisor import Advice, advise
from streams.advisor.advise import Question
from streams.advisor.hold import SESSION
from streams.errors import ConfigError

LAWS = Laws(samples=20_000, users=1_000, items=1_000_000, zipf=0.0, within_ms=10_000, between_ms=600_000, seed=5)
ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".recd" / "cache"
DATA = Path(os.environ.get("RECD_DATA", ROOT.parent / "shared" / "data"))


def values_of(laws: Laws) -> dict[str, Any]:
    """The configuration of a synthetic log, without the groups that were drawn."""
    lists = {group.name: group.features for group in laws.groups}
    return presets.synthetic(users=laws.users, items=laws.items, lists=lists) | {"groups": []}


@pytest.fixture(scope="module")
def log() -> SyntheticLog:
    return draw(LAWS)


@pytest.fixture(scope="module")
def folder(log: SyntheticLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("advise")
    inputs.write(log, made / "log.jsonl")
    (made / "recd.toml").write_text(commented(values_of(LAWS)))
    return made


def command(folder: Path, *more: str) -> list[str]:
    picture = ["--picture", str(folder / "advice.png")]
    return ["advise", "--config", str(folder / "recd.toml"), "--file", str(folder / "log.jsonl"), *picture, *more]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def sampled(file: Path, settings: Config) -> Sampled:
    wanted = Wanted(most=1_000_000, from_beginning=True)
    return gather(of_files([file], None, settings, wanted, lambda _what, _done, _of: None), settings)


def advised(file: Path, values: Mapping[str, Any]) -> Advice:
    settings = from_values(values)
    groups = {group.name: group.features for group in settings.groups}
    return advise(sampled(file, settings).sample, Question(batch_samples=settings.batch.samples, groups=groups))


def predictions_hold(advice: Advice) -> None:
    """Every group: predicted within 10 % of measured, at every hold time; and all of them together."""
    for group in advice.groups:
        for at in group.unit.at:
            assert at.predicted == pytest.approx(at.measured, rel=0.1), (group.unit.name, at)
    for hold in advice.holds:
        assert hold.predicted == pytest.approx(hold.measured, rel=0.1)


def test_groups_that_are_found_are_those_that_were_drawn(folder: Path, log: SyntheticLog) -> None:
    advice = advised(folder / "log.jsonl", values_of(LAWS))
    assert [group.unit.features for group in advice.groups] == [
        ("user",), ("item",), ("watched", "saved"), ("nearby",),
    ]  # fmt: skip
    predictions_hold(advice)
    truth = log.expected_factors()
    for name, features in {"taste": ("watched", "saved"), "context": ("nearby",)}.items():
        (unit,) = [group.unit for group in advice.groups if group.unit.features == features]
        assert unit.at[-1].measured == pytest.approx(truth[name], rel=log.factor_tolerance(name))
        assert unit.at[-1].predicted == pytest.approx(truth[name], rel=0.1)
    assert advice.samples_per_session == pytest.approx(log.session_samples, rel=0.01)


def test_a_program_gets_one_object_a_line_and_the_summary_last(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(command(folder, "--json", "--hold", "0", "--hold", "120", "--tower", "user,watched")) == 0
    found = lines(capsys)
    kinds = [line["event"] for line in found if line["event"] != "progress"]
    assert kinds == sorted(kinds, key=["feature", "group", "apart", "tower", "hold", "summary"].index)
    assert [line["hold_ms"] for line in found if line["event"] == "hold"] == [0, 120_000, SESSION]
    assert {"name", "form", "reason", "values_before", "values_after", "bytes_after", "unchanged", "at"} <= next(
        line for line in found if line["event"] == "group"
    ).keys()
    summary = found[-1]
    assert (summary["ok"], summary["samples"], summary["pays"], summary["exit_reason"]) == (True, 20_000, "yes", "done")
    assert summary["verdict"].startswith("Deduplication pays here")
    assert (folder / "advice.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_person_reads_the_verdict_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(command(folder, "--events", "5000")) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Deduplication pays here")
    for title in ("Features", "Groups to configure", "Towers", "Hold times", "picture: "):
        assert title in shown
    assert "5,000 samples" in shown


def test_write_puts_the_groups_into_the_file_and_shows_what_changes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "recd.toml"
    config.write_text("# my own comment\n" + (folder / "recd.toml").read_text())
    options = command(folder, "--write", "--config", str(config))
    assert cli.run(options) == 0
    assert '+features = ["watched", "saved"]' in capsys.readouterr().err
    assert config.read_text().startswith("# my own comment\n")
    assert [group.features for group in load(config).groups] == [("watched", "saved")]

    before = config.read_bytes()
    assert cli.run(options) == cli.BAD_USAGE
    assert "--force replaces them" in capsys.readouterr().err
    assert config.read_bytes() == before
    assert cli.run([*options, "--force"]) == 0
    assert config.read_bytes() == before
    assert list(tmp_path.iterdir()) == [config]


def test_dense_features_stay_with_the_first_feature_of_their_group(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dense = [{"name": name, "field": name, "default": 0.0} for name in ("age", "hour", "price")]
    groups = [
        {"name": "who", "features": ["user"], "dense": ["age"]},
        {"name": "lists", "features": ["saved", "nearby"], "dense": ["hour"]},
    ]
    config = tmp_path / "recd.toml"
    config.write_text(commented(values_of(LAWS) | {"dense": dense, "groups": groups}))
    assert cli.run(command(folder, "--write", "--force", "--events", "5000", "--config", str(config))) == 0
    found = load(config).groups
    assert [(group.features, group.dense) for group in found] == [
        (("user",), ("age",)),
        (("watched", "saved"), ("hour",)),
    ]
    shown = " ".join(capsys.readouterr().out.split())
    assert "dense columns of groups (age, hour) were not measured" in shown


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--force"], "--force is for --write"),
        (["--tower", "user,shoe"], "--tower names shoe, which is no feature"),
        (["--hold", "-1"], "--hold -1.0: give seconds from 0 on"),
        (["--file", "nowhere.csv"], "there is no such file"),
    ],
)
def test_bad_usage_is_told_before_anything_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], told: str
) -> None:
    assert cli.run(command(folder, *more)) == cli.BAD_USAGE
    assert told in capsys.readouterr().err


def test_a_log_without_a_usable_event_says_why(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"event_id": 1, "user_id": 2, "ts_ms": 1767225500000, "click": 1}\n')
    with pytest.raises(ConfigError, match=r"no event of the sample can be used: .'missing_field': 1"):
        sampled(tmp_path / "log.jsonl", load(folder / "recd.toml"))


def test_reading_stops_at_the_bound_on_memory(folder: Path) -> None:
    settings = load(folder / "recd.toml")
    polls = of_files([folder / "log.jsonl"], None, settings, Wanted(most=10**6, from_beginning=True), print_nothing)
    found = gather(polls, settings, memory_bytes=2_000_000)
    assert found.full
    assert 0 < len(found.sample) < LAWS.samples


def print_nothing(_what: str, _done: int, _total: int) -> None:
    """Nobody listens."""


def test_the_last_events_of_a_file_are_taken_unless_the_first_are_wanted(folder: Path, log: SyntheticLog) -> None:
    settings = load(folder / "recd.toml")
    for from_beginning, expected in ((True, log.time_ms[:3_000]), (False, log.time_ms[-3_000:])):
        wanted = Wanted(most=3_000, from_beginning=from_beginning)
        sample = gather(of_files([folder / "log.jsonl"], None, settings, wanted, print_nothing), settings).sample
        assert sorted(sample.time_ms.tolist()) == sorted(expected.tolist())


def test_it_is_said_when_histories_lack_what_came_before_the_sample(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "recd.toml"
    config.write_text(commented(presets.minimal("advise")))
    for more, told in ((["--events", "2000"], True), (["--events", "2000", "--from-beginning"], False)):
        assert cli.run(command(folder, "--json", "--config", str(config), *more)) == 0
        notes = lines(capsys)[-1]["notes"]
        assert any("histories were built from the sample alone" in note for note in notes) is told


@pytest.mark.integration
def test_a_topic_is_sampled_partition_by_partition(
    folder: Path, kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = {"topics": {"interactions": "advise", "minibatches": "advise-out"}, "kafka": {"bootstrap": kafka}}
    config = tmp_path / "recd.toml"
    config.write_text(commented(values_of(LAWS) | topics))
    run = ["advise", "--config", str(config), "--json", "--picture", str(tmp_path / "p.png")]
    assert cli.run(run) == cli.BAD_USAGE
    assert "there is no topic advise" in capsys.readouterr().err
    assert cli.run(["ingest", str(folder / "log.jsonl"), "--config", str(config)]) == 0
    capsys.readouterr()
    assert cli.run(run) == 0
    summary = lines(capsys)[-1]
    assert (summary["samples"], summary["partitions"]) == (LAWS.samples, 4)
    assert summary["predicted"] == pytest.approx(summary["factor"], rel=0.1)
    assert cli.run([*run, "--events", "1000"]) == 0
    assert lines(capsys)[-1]["samples"] == 4_000


def test_movielens_pays_most_where_its_history_is_kept_as_windows() -> None:
    advice = advised(movielens.prepared(CACHE), presets.movielens())
    assert advice.pays == "yes"
    predictions_hold(advice)
    (history,) = [group for group in advice.groups if group.unit.name == "history"]
    assert history.form == "partial"
    assert history.unit.unchanged == pytest.approx(0.68, abs=0.01)
    assert history.unit.at[-1].measured == pytest.approx(3.0, abs=0.1)
    assert history.unit.at[-1].partial == pytest.approx(26, abs=1)
    assert [group.unit.features for group in advice.groups] == [("user",), ("item",), ("liked",)]


@pytest.mark.skipif(not kuairand.present(DATA), reason=f"the KuaiRand sample is not in {DATA / kuairand.FOLDER}")
def test_on_kuairand_it_says_that_deduplication_hardly_pays(tmp_path: Path) -> None:
    sample = kuairand.Log(DATA)
    sample.write(tmp_path / "log.jsonl")
    advice = advised(tmp_path / "log.jsonl", sample.configuration())
    assert advice.pays == "hardly"
    assert "hardly pays" in advice.verdict
    assert "Sessions are too short" in advice.verdict
    assert advice.samples_per_session == pytest.approx(1.34, abs=0.01)
    predictions_hold(advice)
    static = max(advice.groups, key=lambda group: len(group.unit.features))
    assert len(static.unit.features) == 1 + len(sample.user_features)
    assert static.unit.unchanged == 1.0
