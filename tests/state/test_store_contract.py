"""What every store promises, held against each of them: memory, and a real Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from infra.clock import Clock
from state.memory import MemoryStore
from state.redis import RedisConfig, RedisStore
from state.store import MAX_VALUE_BYTES, MISSING, Store, Versioned
from streams.errors import InvariantError


@dataclass(frozen=True, slots=True)
class Subject:
    """A store, and how its time passes."""

    store: Store
    pass_ms: Callable[[int], None]


def memory_subject() -> Subject:
    now = [0]

    def pass_ms(ms: int) -> None:
        now[0] += ms

    return Subject(MemoryStore(lambda: now[0]), pass_ms)


@pytest.fixture(params=["memory", "redis"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param == "memory":
        yield memory_subject()
        return
    store = RedisStore(RedisConfig(url=request.getfixturevalue("redis")))
    yield Subject(store, Clock().sleep)
    store.close()


@pytest.fixture
def store(subject: Subject) -> Store:
    return subject.store


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A key of this test's own."""
    return f"contract/{request.node.name}"


def test_values_come_back_in_the_order_of_the_keys(store: Store, name: str) -> None:
    store.put_many({f"{name}/a": b"1", f"{name}/b": b"", f"{name}/c": b"\x00\xff"}, None)
    assert store.get_many([f"{name}/c", f"{name}/none", f"{name}/b", f"{name}/a"]) == [b"\x00\xff", MISSING, b"", b"1"]


def test_no_keys_are_no_work(store: Store) -> None:
    store.put_many({}, None)
    store.put_many({}, 1000)
    store.delete_many([])
    assert store.get_many([]) == []


def test_a_value_is_replaced(store: Store, name: str) -> None:
    store.put_many({name: b"old"}, None)
    store.put_many({name: b"new"}, None)
    assert store.get_many([name]) == [b"new"]


def test_thousands_of_keys_at_once_come_back(store: Store, name: str) -> None:
    values = {f"{name}/{i}": str(i).encode() for i in range(2500)}
    store.put_many(values, 60_000)
    assert store.get_many(list(values)) == list(values.values())
    store.delete_many(list(values))
    assert set(store.get_many(list(values))) == {MISSING}


def test_deleting_what_is_absent_is_fine(store: Store, name: str) -> None:
    store.delete_many([name, name])
    assert store.get_many([name]) == [MISSING]


def test_a_value_dies_at_the_end_of_its_time_and_its_neighbour_lives(subject: Subject, name: str) -> None:
    subject.store.put_many({f"{name}/short": b"1"}, 50)
    subject.store.put_many({f"{name}/long": b"2"}, 60_000)
    subject.store.put_many({f"{name}/ever": b"3"}, None)
    subject.pass_ms(120)
    assert subject.store.get_many([f"{name}/short", f"{name}/long", f"{name}/ever"]) == [MISSING, b"2", b"3"]


def test_writing_again_without_a_time_to_live_keeps_the_value(subject: Subject, name: str) -> None:
    subject.store.put_many({name: b"1"}, 50)
    subject.store.put_many({name: b"2"}, None)
    subject.pass_ms(120)
    assert subject.store.get_many([name]) == [b"2"]


def test_only_who_knows_the_version_replaces_the_value(store: Store, name: str) -> None:
    assert not store.compare_and_set(name, 7, Versioned(8, b"x"), None)
    assert store.compare_and_set(name, MISSING, Versioned(1, b"first"), None)
    assert not store.compare_and_set(name, MISSING, Versioned(1, b"again"), None)
    assert store.compare_and_set(name, 1, Versioned(2**63 + 5, b"second"), None)
    assert not store.compare_and_set(name, 1, Versioned(2, b"late"), None)
    (data,) = store.get_many([name])
    assert data is not MISSING
    assert Versioned.decode(data) == Versioned(2**63 + 5, b"second")


def test_a_versioned_value_can_die_too(subject: Subject, name: str) -> None:
    assert subject.store.compare_and_set(name, MISSING, Versioned(1, b"x"), 50)
    subject.pass_ms(120)
    assert subject.store.get_many([name]) == [MISSING]
    assert subject.store.compare_and_set(name, MISSING, Versioned(1, b"y"), None)


def test_many_who_add_one_at_the_same_time_lose_nothing(store: Store, name: str) -> None:
    def add_one(_: int) -> None:
        while True:
            (data,) = store.get_many([name])
            seen = Versioned(0, b"0") if data is MISSING else Versioned.decode(data)
            new = Versioned(seen.version + 1, str(int(seen.blob) + 1).encode())
            if store.compare_and_set(name, MISSING if data is MISSING else seen.version, new, None):
                return

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(add_one, range(60)))
    (data,) = store.get_many([name])
    assert data is not MISSING
    assert Versioned.decode(data) == Versioned(60, b"60")


def test_a_plain_value_is_never_taken_for_a_versioned_one(store: Store, name: str) -> None:
    store.put_many({name: b"plain"}, None)
    with pytest.raises(InvariantError, match="no versioned value; who wrote it"):
        store.compare_and_set(name, MISSING, Versioned(1, b"x"), None)


def test_a_value_that_is_too_large_is_refused_and_nothing_is_written(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="store it in pieces"):
        store.put_many({f"{name}/small": b"1", f"{name}/large": bytes(MAX_VALUE_BYTES + 1)}, None)
    assert store.get_many([f"{name}/small"]) == [MISSING]


def test_a_time_to_live_of_nothing_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="delete the keys instead"):
        store.put_many({name: b"1"}, 0)


def test_a_version_beyond_64_bits_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="does not fit into 64 bits"):
        store.compare_and_set(name, MISSING, Versioned(2**64, b""), None)
