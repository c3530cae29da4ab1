"""What every store of profiles promises, held against each of them: memory, and a real Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from state.memory_profiles import MemoryProfiles
from state.profile_store import ProfileStore, Tag
from state.redis import RedisConfig
from state.redis_profiles import RedisProfiles
from state.store import MISSING

A, B = (Tag(topic="t", offset=offset, owner=1).encode() for offset in (1, 2))


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[ProfileStore]:
    if request.param == "memory":
        yield MemoryProfiles()
        return
    found = RedisProfiles(RedisConfig(url=request.getfixturevalue("redis")))
    yield found
    found.close()


@pytest.fixture
def shelf(request: pytest.FixtureRequest) -> str:
    """A shelf of this test's own."""
    return f"contract/{request.node.name}"


def test_a_shelf_that_nobody_wrote_has_no_tag_and_no_profiles(store: ProfileStore, shelf: str) -> None:
    assert store.read(shelf, [1, -2]) == (MISSING, [MISSING, MISSING])
    assert store.read(shelf, []) == (MISSING, [])


def test_profiles_come_back_in_the_order_of_the_users_with_their_tag(store: ProfileStore, shelf: str) -> None:
    assert store.write(shelf, {1: b"one", -(2**63): b"\x00\xff", 2**63 - 1: b"last"}, MISSING, A)
    assert store.read(shelf, [2**63 - 1, 5, -(2**63), 1]) == (A, [b"last", MISSING, b"\x00\xff", b"one"])


def test_a_profile_of_none_is_removed_and_the_others_stay(store: ProfileStore, shelf: str) -> None:
    assert store.write(shelf, {1: b"one", 2: b"two"}, MISSING, A)
    assert store.write(shelf, {1: None, 3: None, 4: b"four"}, A, B)
    assert store.read(shelf, [1, 2, 3, 4]) == (B, [MISSING, b"two", MISSING, b"four"])


def test_under_another_tag_nothing_is_changed(store: ProfileStore, shelf: str) -> None:
    assert store.write(shelf, {1: b"one"}, MISSING, A)
    assert not store.write(shelf, {1: b"other", 2: b"two"}, MISSING, B)
    assert not store.write(shelf, {1: None}, B, B)
    assert not store.clear(shelf, B, B)
    assert store.read(shelf, [1, 2]) == (A, [b"one", MISSING])


def test_a_tag_is_changed_without_any_profile(store: ProfileStore, shelf: str) -> None:
    assert store.write(shelf, {}, MISSING, A)
    assert store.write(shelf, {}, A, B)
    assert store.read(shelf, []) == (B, [])


def test_a_cleared_shelf_has_its_new_tag_only_and_its_neighbour_stays(store: ProfileStore, shelf: str) -> None:
    neighbour = f"{shelf}/neighbour"
    assert store.write(shelf, {1: b"one"}, MISSING, A)
    assert store.write(neighbour, {1: b"one"}, MISSING, A)
    assert store.clear(shelf, A, B)
    assert store.read(shelf, [1]) == (B, [MISSING])
    assert store.read(neighbour, [1]) == (A, [b"one"])


def test_thousands_of_profiles_at_once_come_back(store: ProfileStore, shelf: str) -> None:
    values = {user: str(user).encode() for user in range(3500)}
    assert store.write(shelf, values, MISSING, A)
    assert store.read(shelf, list(values)) == (A, list(values.values()))


def test_a_tag_of_another_version_is_as_good_as_none() -> None:
    assert Tag.decode(A) == Tag(topic="t", offset=1, owner=1)
    assert Tag.decode(A.replace(b'"version":1', b'"version":2')) is MISSING
    assert Tag.decode(b"no tag") is MISSING
