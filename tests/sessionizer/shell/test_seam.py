"""What was fetched is handed over, whatever the handler has come to want meanwhile; on a real Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.sessionizer.shell.seam_main import AGAIN
from tests.sessionizer.shell.town import town
from tests.sessionizer.shell.world import events

TOTAL = 60


def handed_over(kafka: str, name: str, directory: Path, *, moves: bool) -> dict[str, Any]:
    """What a handler was given of `TOTAL` records."""
    with town(kafka, name, directory) as place:
        place.produce(0, events(TOTAL, seed=1))
        settings = {
            "bootstrap": kafka,
            "topic": name,
            "total": TOTAL,
            "moves": moves,
            "timeout_ms": 60_000,
            "directory": str(directory),
        }
        command = [sys.executable, "-m", "tests.sessionizer.shell.seam_main", json.dumps(settings)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
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
