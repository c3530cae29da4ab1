"""The guide for a topic of one's own, run as it stands: its configuration, its event, its commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.services.stack import Addresses

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

GUIDE = (Path(__file__).parents[2] / "docs" / "your-own-topic.md").read_text(encoding="utf-8")
USERS, EACH = 20, 15


def block(language: str) -> str:
    """The guide's only block of a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return str(found)


def log(example: dict[str, Any]) -> str:
    """A log of events like the guide's example: other users, films and times."""
    lines = []
    for u in range(USERS):
        for n in range(EACH):
            event = example | {"event": f"{u}-{n}", "who": {"id": f"user-{u}"}, "film": f"f-{(u * n) % 30}"}
            event |= {"at": example["at"] + 60 * n + u, "stars": 1 + (u + n) % 5}
            if n % 4 == 0:
                del event["genres"]
            lines.append(json.dumps(event))
    return "\n".join(lines) + "\n"


def test_the_guide_for_ones_own_topic_works_as_it_stands(services: Addresses, tmp_path: Path) -> None:
    (tmp_path / "recd.toml").write_text(block("toml"))
    (tmp_path / "films.jsonl").write_text(log(json.loads(block("json"))))
    addresses = {"RECD__KAFKA__BOOTSTRAP": services.kafka, "RECD__REDIS__URL": services.redis}

    def recd(*words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "infra.cli", *words, "--json"]
        ran = subprocess.run(
            command, cwd=tmp_path, env=os.environ | addresses, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return dict(json.loads(ran.stdout.splitlines()[-1]))

    assert recd("ingest", "films.jsonl", "--end")["produced"] == USERS * EACH
    emitted = recd("sessionizer", "--exit-at-end")["account"]
    assert (emitted["emitted"], emitted["dead_lettered"], emitted["late"]) == (USERS * EACH, 0, 0)
    trained = recd("trainer", "--exit-at-end")
    assert trained["samples"] == USERS * EACH
    assert recd("inspect", "checkpoints")
    assert recd("lag")
