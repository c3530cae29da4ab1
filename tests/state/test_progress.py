"""Where each process stands: written, read back, and never mixed up."""

from __future__ import annotations

import msgspec
import pytest

from state.memory import MemoryStore
from state.progress import TTL_MS, SessionizerProgress, Standing, TrainerProgress, publish, read_all
from state.store import MISSING
from streams.errors import InvariantError

FIRST = SessionizerProgress(
    partition=0, next_offset=120, next_sequence=3, held_samples=9, watermark_ms=1_700_000_000_000, published_ms=5
)
SECOND = SessionizerProgress(
    partition=2, next_offset=1, next_sequence=0, held_samples=1, watermark_ms=-1, published_ms=6
)
TRAINER = TrainerProgress(next_offsets={0: 3, 2: 0}, next_sequences={0: 3, 2: 0}, step=3, samples=700, published_ms=7)


def test_what_was_published_is_read_back() -> None:
    store = MemoryStore(lambda: 0)
    publish(store, "clicks", FIRST, SECOND)
    publish(store, "clicks", TRAINER)
    assert read_all(store, "clicks", 4) == Standing({0: FIRST, 2: SECOND}, TRAINER)


def test_nothing_published_is_missing_and_not_zero() -> None:
    assert read_all(MemoryStore(lambda: 0), "clicks", 4) == Standing({}, MISSING)


def test_streams_do_not_see_each_other() -> None:
    store = MemoryStore(lambda: 0)
    publish(store, "clicks", FIRST)
    assert read_all(store, "views", 1) == Standing({}, MISSING)


def test_a_process_that_is_gone_for_a_week_disappears() -> None:
    now = [0]
    store = MemoryStore(lambda: now[0])
    publish(store, "clicks", FIRST)
    now[0] = TTL_MS
    assert read_all(store, "clicks", 1) == Standing({}, MISSING)


def test_the_bytes_of_version_1_never_change() -> None:
    store = MemoryStore(lambda: 0)
    publish(store, "clicks", FIRST)
    (data,) = store.get_many(["recd/clicks/progress/sessionizer/0"])
    assert data == (
        b'{"type":"sessionizer","partition":0,"next_offset":120,"next_sequence":3,"held_samples":9,'
        b'"watermark_ms":1700000000000,"published_ms":5,"version":1}'
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"type":"sessionizer","version":2,"new":1}', "written in version 2, this recd reads 1: update it"),
        (b"{", "cannot be read: Input data was truncated"),
        (b'{"type":"other","version":1}', "cannot be read: Invalid value 'other'"),
        (msgspec.json.encode(SECOND), "holds the record of another process"),
    ],
)
def test_a_record_that_cannot_be_trusted_is_refused_in_words(data: bytes, message: str) -> None:
    store = MemoryStore(lambda: 0)
    store.put_many({"recd/clicks/progress/sessionizer/0": data}, None)
    with pytest.raises(InvariantError, match=message):
        read_all(store, "clicks", 1)
