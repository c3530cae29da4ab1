"""Whole configurations to start from, as plain tables.

Owns: the MovieLens example that the demo runs and `recd init` writes, and the least that a topic of one's own needs.
Never: repeats a default; only what differs from it stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MOVIELENS_USERS: Final = 943
MOVIELENS_ITEMS: Final = 1_682
_EARLY_1997_MS: Final = 852_076_800_000


def movielens() -> dict[str, Any]:
    """MovieLens-100K as labelled events: does this user give this film four stars or more?"""
    return {
        "event": {
            "event_id": ["user_id", "item_id"],
            "user": "user_id",
            "item": "item_id",
            "time": "timestamp",
            "time_unit": "s",
            "default_kind": "labelled",
            "earliest_ms": _EARLY_1997_MS,
        },
        "labels": [{"name": "like", "field": "rating", "rule": "ge", "threshold": 4.0}],
        "features": [
            {"name": "user", "field": "user_id", "table": "user"},
            {"name": "item", "field": "item_id", "table": "item"},
        ],
        "histories": [{"name": "liked", "table": "item", "last": 50, "label": "like"}],
        "groups": [{"name": "history", "features": ["liked"]}],
        "model": {
            "tables": {
                "user": {"rows": MOVIELENS_USERS + 2, "mapping": "direct"},
                "item": {"rows": MOVIELENS_ITEMS + 2, "mapping": "direct"},
            },
            "pooling": {"liked": "attention"},
        },
        "session": {"gap_ms": 1_800_000, "max_samples": 256},
        "batch": {"samples": 256},
    }


def synthetic(users: int, items: int, lists: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The log of `infra.demo.synthetic`; `lists` are its list features by group."""
    features = [name for group in lists.values() for name in group]
    return {
        "event": {"event_id": ["event_id"], "user": "user_id", "item": "item_id", "time": "ts_ms"},
        "labels": [{"name": "click", "field": "click"}],
        "features": [
            {"name": "user", "field": "user_id", "table": "user"},
            {"name": "item", "field": "item_id", "table": "item"},
            *({"name": name, "field": name, "table": "listed", "list": True} for name in features),
        ],
        "groups": [{"name": name, "features": list(group)} for name, group in lists.items()],
        "model": {
            "tables": {
                "user": {"rows": users + 2, "mapping": "direct"},
                "item": {"rows": items + 2, "mapping": "direct"},
                "listed": {"rows": items + 2, "mapping": "direct"},
            },
            "pooling": dict.fromkeys(features, "mean"),
        },
        "session": {"gap_ms": 1_800_000, "max_samples": 1024},
        "batch": {"samples": 256},
    }


def minimal(topic: str) -> dict[str, Any]:
    """The least that a topic of one's own needs: roles, one label, user, item and a history of items."""
    return {
        "event": {"event_id": ["event_id"], "user": "user_id", "item": "item_id", "time": "ts_ms"},
        "labels": [{"name": "click", "field": "click"}],
        "features": [
            {"name": "user", "field": "user_id", "table": "user"},
            {"name": "item", "field": "item_id", "table": "item"},
        ],
        "histories": [{"name": "recent", "table": "item", "last": 50}],
        "model": {"tables": {"user": {"rows": 100_000}, "item": {"rows": 100_000}}, "pooling": {"recent": "attention"}},
        "worker": {"app": f"{topic}-sessionizer"},
        "topics": {"interactions": topic, "minibatches": f"{topic}-batches"},
    }
