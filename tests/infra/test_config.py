"""The configuration as a user meets it: files, environment, flags, and what a refusal says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from infra.config import Config, from_values, load
from infra.config_file import commented, masked, resolved, save_resolved
from infra.presets import minimal, movielens
from streams.errors import ConfigError

PRESETS = pytest.mark.parametrize("values", [movielens(), minimal("my-topic")], ids=["movielens", "minimal"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recd.toml"
    path.write_text(commented(movielens()), encoding="utf-8")
    return path


def refusal(file: Path, *overrides: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        load(file, overrides, environ or {})
    return str(refused.value)


@PRESETS
def test_the_written_file_loads_back_as_what_it_was_written_for(values: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "recd.toml"
    path.write_text(commented(values), encoding="utf-8")
    assert load(path, environ={}) == from_values(values)


@PRESETS
def test_every_commented_default_is_the_default(values: dict[str, object]) -> None:
    everything = from_values(tomllib.loads(commented(values)))
    for line in re.findall(r"^#([a-z_]+ = .+)$", commented(values), flags=re.MULTILINE):
        tomllib.loads(line)  # Each is a line that can be uncommented.
    assert from_values(tomllib.loads(resolved(everything))) == everything


def test_every_section_is_described(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.match(r"#?\[\[?[a-z_.]+\]", line) and not lines[number - 1].startswith("# "):
            assert lines[number - 1] == "", f"{line} has no description"


def test_flags_win_over_the_environment_and_the_environment_over_the_file(file: Path) -> None:
    environ = {"RECD__BATCH__SAMPLES": "32", "RECD__SESSION__GAP_MS": "60000", "RECD_OTHER": "is not ours"}
    config = load(file, ["batch.samples=64"], environ)
    assert (config.batch.samples, config.session.gap_ms, config.session.max_samples) == (64, 60_000, 256)


def test_lists_are_replaced_whole_and_one_entry_can_be_reached_by_its_number(file: Path) -> None:
    config = load(file, ['event.event_id=["a", "b"]', "labels.0.threshold=3"], {})
    assert config.event.event_id == ("a", "b")
    assert (config.labels[0].name, config.labels[0].threshold) == ("like", 3.0)


def test_an_unknown_key_is_refused_by_name_with_the_nearest_known_one(file: Path) -> None:
    assert "session.gapms is no key of recd (from --set session.gapms); did you mean 'gap_ms'?" in refusal(
        file, "session.gapms=1"
    )
    told = refusal(file, environ={"RECD__SESION__GAP_MS": "1"})
    assert "sesion is no key of recd (from RECD__SESION__GAP_MS); did you mean 'session'?" in told


def test_an_impossible_value_names_the_key_the_value_the_place_and_the_fix(file: Path) -> None:
    told = refusal(file, "batch.samples=0")
    assert "batch.samples must be at least 1" in told
    assert "batch.samples is '0', from --set batch.samples" in told
    told = refusal(file, environ={"RECD__BATCH__SAMPLES": "many"})
    assert "batch.samples = 'many' (from RECD__BATCH__SAMPLES): input should be a valid integer" in told


def test_all_refused_keys_are_named_at_once(file: Path) -> None:
    told = refusal(file, "session.gapms=1", "kafka.bootstap=x", "event.time_unit=hours")
    assert told.startswith("3 problems")
    assert "did you mean 'bootstrap'?" in told
    assert "event.time_unit = 'hours'" in told


def test_sections_that_disagree_are_refused_together(file: Path) -> None:
    assert "tables.film is missing" in refusal(file, "features.1.table=film")


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    assert "recd init" in refusal(tmp_path / "none.toml")


def test_broken_toml_says_where(tmp_path: Path) -> None:
    path = tmp_path / "recd.toml"
    path.write_text("[event]\nuser = user_id\n", encoding="utf-8")
    assert "line 2" in refusal(path)


def test_a_malformed_flag_shows_how_to_write_one(file: Path) -> None:
    assert "section.key=value" in refusal(file, "batch.samples")
    assert "is not a TOML value" in refusal(file, "event.event_id=[a")


def test_secrets_do_not_reach_the_saved_configuration(file: Path, tmp_path: Path) -> None:
    config = load(
        file,
        ["kafka.security_protocol=SASL_SSL", "kafka.sasl_username=me", "kafka.sasl_password=hunter2"],
        {},
    )
    saved = save_resolved(config, tmp_path / "run").read_text(encoding="utf-8")
    assert "hunter2" not in saved
    assert 'sasl_username = "me"' in saved
    assert masked({"url": "redis://me:hunter2@host:1/0"}) == {"url": "redis://me:********@host:1/0"}


def test_a_configuration_is_frozen(file: Path) -> None:
    config: Config = load(file, environ={})
    with pytest.raises(AttributeError):
        config.batch.samples = 3  # type: ignore[misc]


def test_outcomes_in_messages_of_their_own_are_taken_and_their_window_is_checked() -> None:
    values = movielens()
    values["event"] |= {"kind": "type", "kinds": {"click": "outcome"}, "impression": "view_id"}
    values["event"]["event_id"] = ["view_id"]
    assert from_values(values).schema.roles.has_outcomes
    with pytest.raises(ConfigError, match=r"join\.early_ms must lie in 0\.\.join\.window_ms"):
        from_values(values | {"join": {"window_ms": 10, "early_ms": 11}})


def test_a_group_names_its_dense_features_and_a_wrong_name_says_what_there_is(tmp_path: Path) -> None:
    values = minimal("clicks")
    dense = [{"name": "age", "field": "age"}, {"name": "price", "field": "price"}]
    path = tmp_path / "recd.toml"
    for names, told in (
        (["age"], None),
        (["hight"], r"groups\.who: dense: unknown dense feature hight; known: .'age', 'pr"),
    ):
        groups = [{"name": "who", "features": ["user"], "dense": names}]
        path.write_text(commented(values | {"dense": dense, "groups": groups}))
        if told is None:
            assert load(path, environ={}).schema.ungrouped_dense == ["price"]
            continue
        with pytest.raises(ConfigError, match=told):
            load(path, environ={})


def test_a_batch_may_not_be_allowed_to_grow_beyond_what_its_topic_takes(file: Path) -> None:
    said = refusal(file, "topics.max_message_bytes=1000000")
    assert "batch.max_bytes = 8388608 is above topics.max_message_bytes = 1000000" in said
    assert "lower it, or raise the other" in said
    assert load(file, ["topics.max_message_bytes=1000000", "batch.max_bytes=900000"], {}).batch.max_bytes == 900_000
    assert "batch.max_bytes must be at least 65536" in refusal(file, "batch.max_bytes=1000")
