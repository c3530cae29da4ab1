"""Compiles what sessionizers and trainers run, before anyone waits for it: `python -m infra.compile_ahead`.

Compiled loops are kept on disk, so this takes a minute or two once on a machine and seconds afterwards; `make setup`
and the tests do it. A small stream with every kind of event in it goes through the real decoder, core and wire, with
each policy; what it does not need is compiled when somebody needs it.

Two processes share the work: one reads JSON, the other does all the rest with the same events as Arrow, so that no
loop is compiled in both: the compiler's index is not made for two that write to it at once.

Owns that stream. Writes nothing but the compiler's cache.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import torch
from msgspec.json import encode as json_encode

from sessionizer.config import BatchConfig, JoinConfig, ProfilesConfig, SessionConfig
from sessionizer.core import PartitionCore
from sessionizer.effects import Effect, EmitBatch
from state.store import MISSING
from streams import wire
from streams.clock_mark import ClockMark, MarkKind
from streams.events.decode import EventDecoder
from streams.events.event import EventBatch
from streams.events.formats.arrow import ArrowTables
from streams.events.record import Located
from streams.events.roles import Roles
from streams.events.schema import DenseFeature, EventSchema, FeatureGroup, History, Label, SparseFeature
from streams.minibatch import MiniBatch
from trainer.attention_plan import plan_attention
from trainer.row_update import update_rows
from trainer.row_uses import row_uses
from trainer.window_rows import WindowRows, window_sums_of
from trainer.window_sums import window_sums

EVENTS: Final = 600
_START_MS: Final = 1_700_000_000_000
_EVERY_MS: Final = 1_000
_USERS: Final = 7

SCHEMA: Final = EventSchema(
    roles=Roles(
        event_id=("id",),
        user="user",
        item="item",
        time="at",
        kind="type",
        kinds={"view": "impression", "click": "outcome", "rating": "labelled"},
        impression="of",
    ),
    labels=(
        Label(name="clicked", field="type", rule="in", values=("click",)),
        Label(name="stars", field="stars", rule="ge", threshold=4.0, combine="max"),
    ),
    sparse=(
        SparseFeature(name="item_id", field="item", table="items"),
        SparseFeature(name="similar", field="similar", table="items", list=True),
        SparseFeature(name="topics", field="topics", table="topics", list=True),
    ),
    dense=(DenseFeature(name="price", field="price", default=0.0), DenseFeature(name="age", field="age", default=0.0)),
    histories=(
        History(name="clicked_items", table="items", last=8, label="clicked", count="clicks", recency="since_click"),
        History(name="seen_items", table="items", last=16),
    ),
    groups=(
        FeatureGroup(name="lists", features=("similar", "topics"), dense=("age",)),
        FeatureGroup(name="seen", features=("seen_items",), form="partial"),
    ),
)
_SESSIONS: Final = SessionConfig(gap_ms=30_000, lateness_ms=5_000, duplicate_horizon_ms=60_000, max_samples=16)
_BATCHES: Final = BatchConfig(samples=64)


def records(encode: Callable[[dict[str, object]], bytes]) -> list[Located]:
    """Views with lists that repeat, clicks and ratings, doubles, stragglers, an erased user, and what is no event."""
    made = [_record(i, str(i % _USERS).encode(), encode(_event(i))) for i in range(EVENTS)]
    for i in range(50, EVENTS, 100):
        made[i] = _record(i, made[i - 3].key, made[i - 3].value)
    made[120] = _record(120, b"1", b'{"id": ')
    made[300] = _record(300, b"3", None)
    return made


def _record(offset: int, key: bytes | None, value: bytes | None) -> Located:
    return Located("interactions", 0, offset, _START_MS + offset * _EVERY_MS, key, value, ())


def _event(i: int) -> dict[str, object]:
    at = _START_MS + i * _EVERY_MS - (200_000 if i % 90 == 89 else 0)
    event: dict[str, object] = {"id": f"e{i}", "user": i % _USERS, "item": i % 40, "at": at, "type": "view"}
    event |= {"similar": [i // 50, 3, 5], "topics": list(range(i // 60)), "price": i / 7, "age": i % _USERS}
    if i % 3 == 2 and i >= _USERS:
        event |= {"type": "click", "of": f"e{i - _USERS}"}
    elif i % 11 == 10:
        event |= {"type": "rating", "stars": i % 6}
    return event


def read_json() -> int:
    """Compile what reads JSON; how many events it reads."""
    return len(EventDecoder(SCHEMA).decode(records(json_encode)).events)


def make_batches() -> int:
    """Compile all the rest; how many samples come back from the wire."""
    events = EventDecoder(SCHEMA, ArrowTables(SCHEMA)).decode(records(arrow_encode)).events
    waiting = JoinConfig(window_ms=20_000)
    batches = [
        *_run(events, waiting, ProfilesConfig()),
        *_run(events, replace(waiting, policy="wait-positive"), ProfilesConfig(store="redis", max_users_in_memory=1)),
        *_run(events, replace(waiting, policy="correct"), ProfilesConfig()),
    ]
    _update_tables()
    return sum(len(wire.decode(wire.encode(batch))) for batch in batches)


def _update_tables() -> None:
    """One row in one bag, and one candidate that asks it, as a trainer on a CPU does it."""
    plan_attention(np.ones(1, np.int64), np.zeros(1, np.int64))
    uses = row_uses(np.zeros(1, np.int64), np.arange(2))
    weight, momentum, grad = np.zeros((1, 4), np.float32), np.zeros(1, np.float32), np.zeros((1, 4), np.float32)
    rate = np.float32(1)
    window = WindowRows(np.zeros(1, np.int64), np.arange(2), np.zeros(1, np.int64), np.ones(1, np.int64))
    values = torch.zeros(1, 4, requires_grad=True)
    window_sums(values, window_sums_of(window)).sum().backward()  # type: ignore[no-untyped-call]  # torch's own
    update_rows(weight, momentum, grad, (uses.rows_X, uses.starts_X1, uses.bag_V), rate, rate, 0, 1)


def main() -> int:
    """Both at once; 0 if both came to their end."""
    if sys.argv[1:] == ["--json"]:
        read_json()
        return 0
    with subprocess.Popen([sys.executable, "-m", "infra.compile_ahead", "--json"]) as other:
        make_batches()
    return other.returncode


def arrow_encode(event: dict[str, object]) -> bytes:
    """One event as an Arrow message."""
    table, sink = pa.Table.from_pylist([event]), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _run(events: EventBatch, joins: JoinConfig, profiles: ProfilesConfig) -> Iterator[MiniBatch]:
    """One partition from its first event to its end, through a cut in the middle and one at the end."""
    core, kept = PartitionCore(SCHEMA, _SESSIONS, _BATCHES, 0, joins, profiles), dict[int, bytes | None]()
    for stop in (EVENTS // 2, EVENTS):
        low, high = np.searchsorted(events.offset, (core.next_offset, stop))
        part = events.take(np.arange(low, high))
        users = core.unknown(part)
        core.load_profiles(users, [kept.get(user) or MISSING for user in users.tolist()])
        yield from _batches(core.feed(part, rejected=stop - core.next_offset - len(part), next_offset=stop))
        kept |= core.changed_profiles()
        core.evict()
        core = PartitionCore.restore(SCHEMA, _SESSIONS, _BATCHES, core.cut(), joins, profiles)
    yield from _batches(core.apply(ClockMark(partition=0, after_offset=EVENTS, kind=MarkKind.END)))


def _batches(effects: Sequence[Effect]) -> Iterator[MiniBatch]:
    return (effect.batch for effect in effects if isinstance(effect, EmitBatch))


if __name__ == "__main__":
    sys.exit(main())
