"""What a demo shows, and how it reads its processes' metrics."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from infra.clock import Clock
from infra.demo.progress import Progress, Reading
from infra.demo.screen import Board, Lines, chosen
from infra.metrics import PrometheusReporter, serve

READING = Reading(
    wall_ms=4_000,
    events=12_345,
    lag_events=678,
    open_sessions=90,
    held=1_200,
    emitted=11_000,
    trained=10_752,
    ne_window=0.91234,
    factors={"history": 3.0},
)


def endpoint(reporter: PrometheusReporter) -> str:
    return f"http://127.0.0.1:{serve(reporter, '127.0.0.1', 0)}/metrics"


def test_progress_is_read_from_both_processes() -> None:
    sessionizer, trainer = PrometheusReporter(), PrometheusReporter()
    for partition in ("0", "1"):
        sessionizer.count("recd_events_total", 50, partition=partition, account="labelled")
        sessionizer.gauge("recd_fetch_lag_events", 7, partition=partition)
        sessionizer.gauge("recd_open_sessions", 3, partition=partition)
    sessionizer.gauge("recd_dedup_factor", 3.5, group="history")
    trainer.count("recd_trained_samples_total", 64)
    trainer.gauge("recd_ne", 0.9, task="like", scope="window")
    trainer.gauge("recd_ne", float("nan"), task="like", scope="lifetime")
    progress = Progress(Clock(), sessionizer=endpoint(sessionizer), trainer=endpoint(trainer))
    now = progress.read()
    assert (now.events, now.lag_events, now.open_sessions, now.trained) == (100, 14, 6, 64)
    assert (now.ne_window, now.ne_lifetime, now.factors) == (0.9, None, {"history": 3.5})


def test_a_process_that_does_not_answer_keeps_its_last_numbers() -> None:
    progress = Progress(Clock(), sessionizer="http://127.0.0.1:9/metrics", trainer="http://127.0.0.1:9/metrics")
    progress.readings.append(READING)
    now = progress.read()
    assert (now.events, now.trained, now.ne_window) == (12_345, 10_752, 0.91234)


def test_a_terminal_sees_a_table_with_every_figure() -> None:
    text = io.StringIO()
    with Board(Console(file=text, force_terminal=True, width=100)) as board:
        board.say("services are up")
        board.show(READING, 4_321.0)
    for shown in ("services are up", "12,345 (4,321/s)", "678 events", "90 (1,200 samples)", "history 3.00x", "0.9123"):
        assert shown in text.getvalue()


def test_elsewhere_plain_lines_appear_every_two_seconds_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(as_json=False)
    for wall_ms in (0, 500, 1_900, 2_000, 3_000):
        lines.show(Reading(wall_ms=wall_ms), 0.0)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 2


def test_a_program_gets_json_lines_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with chosen(as_json=True) as screen:
        screen.say("for a person")
        screen.show(READING, 10.0)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["event"] == "progress"
    assert json.loads(shown.out)["trained"] == 10_752
    assert shown.err == "for a person\n"
