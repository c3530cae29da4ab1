"""The KuaiRand sample: short-video exposures, static user features, the last 50 items watched strictly before.

Owns reading the folder `kuairand_pure_sample` inside the one that RECD_DATA names, which is not part of this project
(CC BY-SA 4.0, see its ATTRIBUTION.md); as mini-batches, and as a log of events with the least configuration that makes
samples of them.

Shapes: B samples, S samples of the log, V values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.kernels import copy_slices
from streams.minibatch import Lineage, MiniBatch

I64 = npt.NDArray[np.int64]
FOLDER: Final = "kuairand_pure_sample"
FILES: Final = ("events.csv.gz", "history_before.csv.gz", "users.csv.gz")
LAST: Final = 50
LABELS: Final = ("label", "long_view", "is_like")


def present(data: Path) -> bool:
    """Whether the sample is there."""
    return all((data / FOLDER / name).exists() for name in FILES)


class Log:
    """The whole sample, in time order."""

    def __init__(self, data: Path) -> None:
        folder = data / FOLDER
        events = csv.read_csv(folder / "events.csv.gz").sort_by("ts_ms")
        self._columns = {name: _numbers(events[name]) for name in events.column_names}
        self._time: I64 = self._columns["ts_ms"]  # [S]
        self._session: I64 = self._columns["session30"]  # [S]
        self.users: I64 = self._columns["user_id"]
        """[S]."""
        users = csv.read_csv(folder / "users.csv.gz")
        self._users = {name: _numbers(users[name]) for name in users.column_names if name != "user_id"}
        self.user_features = tuple(self._users)
        """Names of what never changes about a user."""
        self._user_row = _found(_numbers(users["user_id"]), self.users)  # [S]
        self._history = _histories(folder / "history_before.csv.gz", self._columns)  # S rows

    def __len__(self) -> int:
        return len(self._time)

    def clustered(self) -> I64:
        """[S], samples in the order in which their sessions end."""
        end = np.zeros(int(self._session.max()) + 1, np.int64)
        np.maximum.at(end, self._session, self._time)
        order: I64 = np.lexsort((self._time, self._session, end[self._session]))
        return order

    def write(self, path: Path) -> None:
        """The log as JSON lines, for `configuration`."""
        columns = {
            "user_id": self.users,
            "item_id": self._columns["item_id"],
            "ts_ms": self._time,
            "click": self._columns["label"],
            "author": self._columns["if_author"],
            **{name: column[self._user_row] for name, column in self._users.items()},
        }
        encoder = msgspec.json.Encoder()
        with path.open("wb") as file:
            for number, row in enumerate(zip(*(column.tolist() for column in columns.values()), strict=True)):
                event = dict(zip(columns, row, strict=True))
                event |= {"event_id": number, "watched": self._history.row(number).tolist()}
                file.write(encoder.encode(event) + b"\n")

    def configuration(self) -> dict[str, Any]:
        """The least that makes samples of what `write` wrote."""
        single = ["user_id", "item_id", "author", *self.user_features]
        return {
            "event": {"event_id": ["event_id"], "user": "user_id", "item": "item_id", "time": "ts_ms"},
            "labels": [{"name": "click", "field": "click"}],
            "features": [
                *({"name": name, "field": name, "table": "ids"} for name in single),
                {"name": "watched", "field": "watched", "table": "ids", "list": True},
            ],
            "model": {"tables": {"ids": {"rows": 100_000}}},
        }

    def batch(self, chosen: I64) -> MiniBatch:
        """The chosen samples: a group of user features, one of the history, one of item features."""
        user = {name: column[self._user_row[chosen]] for name, column in self._users.items()}
        item = {name: self._columns[name][chosen] for name in ("item_id", "if_author", "if_tag")}
        return MiniBatch(
            partition=0,
            sequence=0,
            watermark_ms=0,
            fingerprint=0,
            lineage=Lineage(
                offset=chosen,
                event_id=chosen.astype(np.uint64),
                session_id=self._session[chosen].astype(np.uint64),
                event_time_ms=self._time[chosen],
                appended_ms=self._time[chosen],
            ),
            labels=np.stack([self._columns[name][chosen] for name in LABELS], axis=1).astype(np.float32),
            dense=self._columns["if_duration_ms"][chosen].astype(np.float32)[:, None],
            groups=(
                deduplicate("user", _single({"user_id": self.users[chosen], **user})),
                deduplicate("history", {"watched": self._history.take(chosen)}),
                deduplicate("item", _single(item)),
            ),
        )


def _single(columns: dict[str, I64]) -> dict[str, Jagged]:
    """One id a row."""
    return {name: Jagged(column, np.arange(len(column) + 1, dtype=np.int64)) for name, column in columns.items()}


def _numbers(column: pa.ChunkedArray[Any]) -> I64:
    """Integers as they are; anything else numbered by first appearance, and what is missing 0."""
    values: Any = column.combine_chunks()
    if not pa.types.is_integer(values.type):
        values = pc.add(values.cast(pa.string()).dictionary_encode().indices, 1)
    return np.asarray(values.fill_null(0)).astype(np.int64)


def _found(keys: I64, wanted: I64) -> I64:
    """Places of the wanted keys, all of which are there."""
    order = np.argsort(keys)
    places: I64 = order[np.searchsorted(keys, wanted, sorter=order)]
    assert np.array_equal(keys[places], wanted)
    return places


def _histories(path: Path, columns: dict[str, I64]) -> Jagged:
    """S rows: the last items that the user watched before the sample, not at the same time."""
    table = csv.read_csv(path)
    before = {
        user: np.asarray((text or "").split(), dtype=np.int64)
        for user, text in zip(table["user_id"].to_pylist(), table["watch_seq"].to_pylist(), strict=True)
    }
    user, time = columns["user_id"], columns["ts_ms"]
    order = np.lexsort((np.arange(len(user)), time, user))
    firsts = np.flatnonzero(np.diff(user[order], prepend=-1))
    parts, start, length = [], np.zeros(len(user), np.int64), np.zeros(len(user), np.int64)
    filled = 0
    for first, end in zip(firsts, [*firsts[1:], len(user)], strict=True):
        mine = order[first:end]
        old = before.get(int(user[mine[0]]), np.empty(0, np.int64))
        seen = len(old) + np.searchsorted(time[mine], time[mine], side="left")
        length[mine] = np.minimum(seen, LAST)
        start[mine] = filled + seen - length[mine]
        parts += [old, columns["item_id"][mine]]
        filled += len(old) + len(mine)
    offsets = offsets_of(length)
    return Jagged(copy_slices(np.concatenate(parts), start, offsets), offsets)
