"""Where a demo keeps things.

    DIR/cache/       data that was downloaded; kept
    DIR/services/    Kafka and Redis; removed at the end unless the demo is to be kept
    DIR/run/         this run: recd.toml, logs/, the model with its ledger and checkpoints; kept until the next run
    REPORT/          picture, page, summary and resolved configuration; kept

Owns: the places and clearing them. Never: touches anything else.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """All places of one demo directory, absolute: children work elsewhere."""

    root: Path
    report: Path

    @classmethod
    def under(cls, directory: Path, report: Path) -> DemoPaths:
        """The places under these two folders."""
        return cls(directory.absolute(), report.absolute())

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def services(self) -> Path:
        return self.root / "services"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def config(self) -> Path:
        return self.run / "recd.toml"

    @property
    def model(self) -> Path:
        return self.run / "model"

    def clear_services(self) -> None:
        """Remove the services, which have been stopped, with their data."""
        shutil.rmtree(self.services, ignore_errors=True)

    def clear(self) -> None:
        """Remove the run before this one; nothing may run in it."""
        shutil.rmtree(self.run, ignore_errors=True)
        self.clear_services()
        self.run.mkdir(parents=True)
