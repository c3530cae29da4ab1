"""Where an audit writes down what it did: one JSON object a line, so that it can be stopped and gone on with.

    {"audit": …, "seed": …, "revision": …}      the first line
    {"round": …, …}                             what one round did
    {"result": …, …}                            the last line, once all is done

RECD_AUDIT_RESULT names the file (default: `.recd/audit-<name>.jsonl`), RECD_AUDIT_SEED the seed. A file without a
result is gone on with, under its own seed; one with a result, or of another seed, is begun anew.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).parents[2]


class Record:
    """The file of one audit."""

    def __init__(self, name: str) -> None:
        given = os.environ.get("RECD_AUDIT_RESULT")
        self.path = Path(given) if given else _ROOT / ".recd" / f"audit-{name}.jsonl"
        wanted = os.environ.get("RECD_AUDIT_SEED")
        lines = [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []
        unfinished = bool(lines) and "result" not in lines[-1] and lines[0]["audit"] == name
        if unfinished and wanted in {None, str(lines[0]["seed"])}:
            self.seed = int(lines[0]["seed"])
            self.rounds: list[dict[str, Any]] = lines[1:]
            return
        self.seed = int(wanted) if wanted else int(np.random.default_rng().integers(1 << 32))
        self.rounds = []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("")
        self._write({"audit": name, "seed": self.seed, "revision": _revision()})

    def add(self, done: dict[str, Any]) -> None:
        """One more round."""
        self.rounds.append(done)
        self._write(done)

    def conclude(self, result: dict[str, Any]) -> None:
        """The last line."""
        self._write(result)

    def _write(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _revision() -> str:
    ran = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.strip() or "unknown"
