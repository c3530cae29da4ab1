"""The commands `recd ingest` and `recd lag` as a person and a program see them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra import cli

pytestmark = pytest.mark.integration

CONFIG = """
[event]
event_id = ["user", "item"]
user = "user"
item = "item"
time = "t"
time_unit = "s"

[[labels]]
name = "like"
field = "stars"
rule = "ge"
threshold = 4

[[features]]
name = "item"
field = "item"
table = "item"

[model.tables.item]
rows = 100

[topics]
interactions = "cli-ingest"
minibatches = "cli-ingest-out"
"""


def arguments(kafka: str, folder: Path) -> list[str]:
    config = folder / "recd.toml"
    config.write_text(CONFIG)
    return ["--config", str(config), "--set", f"kafka.bootstrap={kafka}"]


def test_a_log_is_ingested_and_the_summary_is_the_last_line(
    kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "log.csv"
    file.write_text("user,item,stars,t\n1,2,5,1700000000\n1,3,4\n2,2,1,17\n2,9,3,1700000001\n")
    options = arguments(kafka, tmp_path)
    assert cli.run(["ingest", str(file), "--end", "--json", *options]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {name: summary[name] for name in ("event", "ok", "read", "produced", "dead_letter", "exit_reason")} == {
        "event": "summary", "ok": True, "read": 4, "produced": 2, "dead_letter": 2, "exit_reason": "done",
    }  # fmt: skip
    assert summary["reasons"] == {"time_out_of_range": 1, "wrong_type": 1}
    assert {"bytes", "wall_s", "events_per_s"} <= summary.keys()

    assert cli.run(["lag", "--json", *options]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["process"] for line in lines[:-1]] == ["sessionizer"] * 4 + ["trainer"] * 4
    assert lines[-1]["sessionizer"] == {"fetch_events": None, "fetch_ms": None, "commit_events": None}

    # Other tests of this file share the topic. Letters of one millisecond in two partitions have no order.
    assert cli.run(["inspect", "dead-letters", "--last", "2", "--json", *options]) == 0
    *letters, told = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    known = {letter["reason"]: (letter["source_line"], letter["source"]) for letter in letters}
    assert known == {"wrong_type": (3, str(file)), "time_out_of_range": (4, str(file))}
    [early] = [letter for letter in letters if letter["reason"] == "time_out_of_range"]
    assert early["head"] == '{"user":2,"item":2,"stars":1,"t":17}'
    assert told["reasons"] == {"time_out_of_range": 1, "wrong_type": 1}


def test_a_person_gets_two_lines(kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log.tsv"
    file.write_text("user\titem\tstars\tt\n1\t2\t5\t1700000000\n")
    assert cli.run(["ingest", str(file), *arguments(kafka, tmp_path)]) == 0
    assert "1 rows read: 1 events produced, 0 dead-lettered" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        (["--speed", "2", "--rate", "3"], "exclude each other"),
        (["--rate", "0"], "--rate must be positive"),
        ([], "missing.csv: cannot be read"),
    ],
)
def test_bad_usage_is_told_and_nothing_is_sent(
    kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str], told: str
) -> None:
    assert cli.run(["ingest", str(tmp_path / "missing.csv"), *extra, *arguments(kafka, tmp_path)]) == 2
    assert told in capsys.readouterr().err


def test_ctrl_c_says_what_is_in_kafka_and_leaves_with_130(kafka: str, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("user,item,stars,t\n" + "".join(f"{i},1,3,{1_700_000_000 + i}\n" for i in range(5000)))
    command = [sys.executable, "-m", "infra.cli", "ingest", str(file), "--rate", "50", "--json"]
    command += arguments(kafka, tmp_path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        # The first line of progress: events are under way.
        assert json.loads(running.stdout.readline())["event"] == "progress"
        running.send_signal(signal.SIGINT)
        summary = json.loads(running.stdout.read().splitlines()[-1])
        told = running.stderr.read()
        assert running.wait(30) == 130
    assert (summary["ok"], summary["exit_reason"]) == (False, "interrupted")
    assert 0 < summary["produced"] < 5000
    assert f"interrupted: {summary['produced']} events and 0 dead letters are in Kafka" in told
