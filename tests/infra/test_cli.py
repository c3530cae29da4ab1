"""The command line: quick help, exit codes, and errors that say what to do."""

from __future__ import annotations

import importlib.util
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cli import BAD_USAGE, COMMANDS, DONE, FAILED, run
from infra.config import load

HEAVY = ("torch", "torchrec", "faust", "confluent_kafka", "numba", "matplotlib", "pydantic", "infra.config")


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys, infra.cli; infra.cli.run(['--help']); print([m for m in {HEAVY} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_help_is_there_in_half_a_second() -> None:
    # Of the processor's time: on a busy machine any process waits. Once is enough, since what shares a core slows it.
    assert any(_processor_s() < 0.5 for _ in range(10))


def _processor_s() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "infra.cli", "--help"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_every_listed_command_has_a_file_of_its_name() -> None:
    for name, entry in COMMANDS.items():
        assert entry.module == f"infra.commands.{name}"
        assert importlib.util.find_spec(entry.module) is not None


@pytest.mark.parametrize("name", ["demo", "init", "up", "ingest"])
def test_every_command_shows_options_and_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == DONE
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert f"recd {name}" in shown


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == DONE
    assert capsys.readouterr().out.startswith("recd 0.")


def test_a_misspelt_command_is_bad_usage_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demoo"]) == BAD_USAGE
    assert "Did you mean 'demo'" in capsys.readouterr().err


def test_a_bad_configuration_is_bad_usage_and_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ingest", "none.csv", "--config", str(tmp_path / "none.toml"), "--json"]) == BAD_USAGE
    shown = capsys.readouterr()
    assert "recd init" in shown.err
    assert "Traceback" not in shown.err
    summary = json.loads(shown.out.splitlines()[-1])
    assert (summary["ok"], summary["exit_reason"]) == (False, "ConfigError")


def test_debug_shows_the_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--debug", "ingest", "none.csv", "--config", str(tmp_path / "none.toml")])
    assert "Traceback" in capsys.readouterr().err


def test_init_writes_a_file_that_loads_and_does_not_replace_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recd.toml"
    assert run(["init", str(path), "--for", "clicks"]) == DONE
    assert load(path, environ={}).topics.interactions == "clicks"
    assert run(["init", str(path)]) == BAD_USAGE
    assert "--force" in capsys.readouterr().err
    assert run(["init", str(path), "--force"]) == DONE
    assert load(path, environ={}).labels[0].name == "like"


def test_init_prints_instead_of_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--print"]) == DONE
    assert "[event]" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_configuration_in_force_is_shown_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recd.toml"
    run(["init", str(path)])
    flag = "redis.url=redis://me:hunter2@localhost:1/0"
    assert run(["config", "--config", str(path), "--set", flag, "--set", "batch.samples=7", "--json"]) == DONE
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    assert json.loads(shown)["batch"]["samples"] == 7


def test_the_exit_codes_are_the_stated_ones() -> None:
    assert (DONE, FAILED, BAD_USAGE) == (0, 1, 2)


def test_what_the_system_refuses_is_told_in_words_with_the_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    assert run(["up", "--dir", str(tmp_path / "file" / "folder"), "--json"]) == FAILED
    told = capsys.readouterr()
    assert told.err == f"error: {tmp_path / 'file' / 'folder'}: Not a directory\n"
    assert json.loads(told.out.splitlines()[-1])["ok"] is False


def test_a_bug_shows_its_traceback_and_still_gives_a_summary(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("infra.commands.down.Stack", broken)
    assert run(["down", "--json"]) == FAILED
    told = capsys.readouterr()
    assert "Traceback" in told.err
    assert "this is a bug of recd" in told.err.splitlines()[-1]
    assert json.loads(told.out)["exit_reason"] == "ZeroDivisionError"
