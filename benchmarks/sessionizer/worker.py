"""`recd sessionizer` on a filled topic: one real Faust worker from its start to its last commit.

Owns nothing but the way it is run: transactions, joins and every check are on, and it stops at the end marks, when all
its mini-batches are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.sessionizer import child, setup
from benchmarks.sessionizer.child import Used
from benchmarks.sessionizer.setup import Filled
from infra.config import Config

PROGRAM: Final = "infra.cli"


@dataclass(frozen=True, slots=True)
class Worked:
    """A worker that came to the end of its topic."""

    config: Config
    used: Used


def work(
    filled: Filled,
    name: str,
    directory: Path,
    core: int,
    *,
    look: Callable[[int], None] | None = None,
    program: str = PROGRAM,
    **more: object,
) -> Worked:
    """Run one worker under a new name; `more` are sections of its configuration. Raises if an event is missing."""
    sections = {"run": {"directory": str(directory / name)}} | more
    if filled.events_a_message > 1:
        sections |= {"format": {"name": "arrow"}}
    config = setup.configured(
        filled.kafka, filled.topic, filled.law, name=name, partitions=filled.partitions, more=sections
    )
    path = setup.written(config, directory / name)
    words = ["sessionizer", "--exit-at-end", "--json", "-c", str(path)]
    used = child.run(program, words, core=core, look=look)
    account = used.said["account"]
    wanted = {"events": filled.num_events, "emitted": filled.num_views, "dead_lettered": 0, "late": 0}
    found = {key: account[key] for key in wanted}
    if found != wanted or account["joined"] != filled.num_events - filled.num_views:
        raise RuntimeError(f"{name} should have had {wanted} and every click joined; it had {account}")
    return Worked(config, used)
