"""What was fetched is handed over, whatever the handler has come to want meanwhile; on a real Kafka.

What breaks in the event loop ends the process in words: a worker that lives and does nothing would not be noticed.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sessionizer.shell.seam_main import AGAIN
from tests.sessionizer.shell.town import town
from tests.sessionizer.shell.world import events

TOTAL = 60


def run_seam(
    kafka: str, name: str, directory: Path, *, moves: bool = False, breaks: str = "", web_port: int = 0
) -> subprocess.CompletedProcess[str]:
    """The seam's process on a topic of `TOTAL` records, after it has ended."""
    with town(kafka, name, directory) as place:
        place.produce(0, events(TOTAL, seed=1))
        settings = {
            "bootstrap": kafka,
            "topic": name,
            "total": TOTAL,
            "moves": moves,
            "breaks": breaks,
            "web_port": web_port,
            "timeout_ms": 60_000,
            "directory": str(directory),
        }
        command = [sys.executable, "-m", "tests.sessionizer.shell.seam_main", json.dumps(settings)]
        return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def handed_over(kafka: str, name: str, directory: Path, *, moves: bool) -> dict[str, Any]:
    """What a handler was given of `TOTAL` records."""
    ran = run_seam(kafka, name, directory, moves=moves)
    assert ran.returncode == 0, ran.stderr
    found = dict(json.loads(ran.stdout.splitlines()[-1]))
    assert not found["failure"]
    return found


def test_a_partition_that_wants_nothing_more_after_a_fetch_is_given_what_was_fetched(
    kafka: str, tmp_path: Path
) -> None:
    found = handed_over(kafka, "seam-fickle", tmp_path, moves=False)
    assert found["taken"] == list(range(TOTAL)), "the client never fetches a record twice"
    assert found["next_offset"] == TOTAL


def test_a_partition_that_moves_during_a_fetch_is_given_nothing_from_where_it_was(kafka: str, tmp_path: Path) -> None:
    found = handed_over(kafka, "seam-moves", tmp_path, moves=True)
    before = found["before_move"]
    assert found["taken"] == [*range(before), *range(AGAIN, TOTAL)]


@pytest.mark.parametrize("breaks", ["handler", "fetch"])
def test_what_breaks_ends_the_process_with_the_reason(kafka: str, tmp_path: Path, breaks: str) -> None:
    ran = run_seam(kafka, f"seam-breaks-{breaks}", tmp_path, breaks=breaks)
    assert ran.returncode == 1
    assert f"this {breaks} is broken" in ran.stderr
    assert "the Faust worker failed; its log has the reason" in ran.stderr


def test_a_web_port_that_is_taken_ends_the_process_with_the_reason(kafka: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = run_seam(kafka, "seam-port", tmp_path, web_port=taken.getsockname()[1])
    assert ran.returncode == 1
    assert "address already in use" in ran.stderr.splitlines()[-1]
