"""The KuaiRand sample as a log: short-video exposures with static user features and the watch history of the moment.

Owns reading the folder that RECD_DATA names (default: ../shared/data beside the checkout), which is not part of the
repository, and the least configuration that makes its events samples. Licence of the data: CC BY-SA 4.0.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(os.environ.get("RECD_DATA", ROOT.parent / "shared" / "data")) / "kuairand_pure_sample"
HISTORY: Final = 50
USER_FEATURES: Final = 30

Row = dict[str, str]


def rows(name: str) -> Iterator[Row]:
    with gzip.open(FOLDER / name, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def write(path: Path) -> int:
    """The log as JSON lines in event-time order; returns the number of events."""
    users = {row.pop("user_id"): row for row in rows("users.csv.gz")}
    seen = {row["user_id"]: [int(item) for item in row["watch_seq"].split()] for row in rows("history_before.csv.gz")}
    events = sorted(rows("events.csv.gz"), key=lambda row: int(row["ts_ms"]))
    visible: dict[str, tuple[int, list[int]]] = {}
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for number, row in enumerate(events):
            user, time_ms, items = row["user_id"], int(row["ts_ms"]), seen.setdefault(row["user_id"], [])
            if user not in visible or visible[user][0] != time_ms:
                visible[user] = (time_ms, items[-HISTORY:])
            event = {
                "event_id": number, "user_id": int(user), "item_id": int(row["item_id"]), "ts_ms": time_ms,
                "click": int(row["label"]), "author": row["if_author"], "watched": visible[user][1], **users[user],
            }  # fmt: skip
            file.write(encoder.encode(event) + b"\n")
            items.append(int(row["item_id"]))
    return len(events)


def values() -> dict[str, Any]:
    """The configuration."""
    names = [name for name in next(rows("users.csv.gz")) if name != "user_id"]
    assert len(names) == USER_FEATURES
    single = ["user_id", "item_id", "author", *names]
    return {
        "event": {"event_id": ["event_id"], "user": "user_id", "item": "item_id", "time": "ts_ms"},
        "labels": [{"name": "click", "field": "click"}],
        "features": [
            *({"name": name, "field": name, "table": "ids", "required": False} for name in single),
            {"name": "watched", "field": "watched", "table": "ids", "list": True},
        ],
        "model": {"tables": {"ids": {"rows": 100_000}}},
    }
