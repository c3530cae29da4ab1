"""Records and a schema for tests of decoding. Asserts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from streams.events.roles import Roles
from streams.events.schema import DenseFeature, EventSchema, Label, SparseFeature

NOW_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rec:
    """A record as aiokafka spells it."""

    value: bytes | None
    offset: int = 0
    key: bytes | None = None
    timestamp: int = NOW_MS
    topic: str = "interactions"
    partition: int = 0
    headers: Sequence[tuple[str, bytes]] = field(default=(("recd-appended-ms", str(NOW_MS).encode()),))


ROLES = Roles(
    event_id=("id",),
    user="user",
    item="item",
    time="time",
    kind="kind",
    kinds={"view": "impression", "click": "outcome", "rating": "labelled"},
    impression="of",
)
SCHEMA = EventSchema(
    roles=ROLES,
    labels=(Label(name="like", field="rating", rule="ge", threshold=4.0), Label(name="buy", field="bought")),
    sparse=(
        SparseFeature(name="item", field="item", table="item"),
        SparseFeature(name="shop", field="ctx.shop", table="shop", required=False),
        SparseFeature(name="seen", field="seen", table="item", list=True),
        SparseFeature(name="tags", field="ctx.tags", table="tag", list=True, required=False),
    ),
    dense=(DenseFeature(name="price", field="price"), DenseFeature(name="age", field="age", default=-1.0)),
)


def event(**changes: object) -> dict[str, object]:
    """A labelled event that SCHEMA accepts; a change to `...` leaves the field out."""
    fields: dict[str, object] = {
        "id": 1, "user": 42, "item": 7, "time": NOW_MS, "kind": "rating", "rating": 5, "bought": 0,
        "seen": [1, 2, 3], "price": 1.5, "ctx": {"shop": 3, "tags": ["a", "b"]},
    }  # fmt: skip
    return {name: value for name, value in (fields | changes).items() if value is not ...}


def rec(at: int = 0, **changes: object) -> Rec:
    """A record at offset `at` with that event."""
    return Rec(value=msgspec.json.encode(event(**changes)), offset=at)


def raw(value: bytes | None, at: int = 0, key: bytes | None = None, timestamp: int = NOW_MS) -> Rec:
    """A record at offset `at` with these bytes."""
    return Rec(value=value, offset=at, key=key, timestamp=timestamp)
