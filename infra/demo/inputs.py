"""A log to demonstrate on: its file, its configuration, and what must come out.

Owns: the two inputs, MovieLens-100K and the synthetic log. Never: runs anything on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from infra import presets
from infra.demo import movielens
from infra.demo.synthetic import Laws, SyntheticLog, draw

WRITE_ROWS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DemoInput:
    """What a demo runs on."""

    title: str
    file: Path
    """What `recd ingest` reads."""
    events: int
    values: Mapping[str, Any]
    """The configuration, as `infra.config.from_values` takes it; addresses and folders are the run's."""
    logistic_features: tuple[str, ...] = ("user", "item")
    """What the logistic regression beside it may see."""
    terms: str = ""
    laws: SyntheticLog | None = field(default=None, repr=False)
    """The log's laws where they are known."""


def movielens_100k(cache: Path) -> DemoInput:
    """The real log."""
    return DemoInput(
        title="MovieLens-100K",
        file=movielens.prepared(cache),
        events=movielens.EVENTS,
        values=presets.movielens(),
        terms=movielens.TERMS,
    )


def synthetic(samples: int, seed: int, directory: Path) -> DemoInput:
    """A log of known laws, written into `directory`."""
    log = draw(Laws(samples=samples, seed=seed))
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "synthetic.jsonl"
    write(log, path)
    laws = log.laws
    return DemoInput(
        title=f"synthetic log of {samples:,} samples",
        file=path,
        events=samples,
        values=presets.synthetic(
            users=laws.users, items=laws.items, lists={group.name: group.features for group in laws.groups}
        ),
        laws=log,
    )


def write(log: SyntheticLog, path: Path) -> None:
    """One JSON object a line, the lists in the event as they were at that moment."""
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for start in range(0, len(log.time_ms), WRITE_ROWS):
            rows = range(start, min(start + WRITE_ROWS, len(log.time_ms)))
            file.write(encoder.encode_lines([_event(log, row) for row in rows]))


def _event(log: SyntheticLog, row: int) -> dict[str, object]:
    return {
        "event_id": row,
        "user_id": int(log.user[row]),
        "item_id": int(log.item[row]),
        "ts_ms": int(log.time_ms[row]),
        "click": int(log.label[row]),
        **{name: lists.of(row) for name, lists in log.lists.items()},
    }
