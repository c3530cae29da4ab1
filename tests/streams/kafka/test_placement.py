"""Where keys belong, and what is told of keys that lie elsewhere."""

from __future__ import annotations

import zlib

import pytest
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.placement import misplaced, torn
from streams.routing.murmur2 import murmur2, partition_of, partitions_of

USERS = [f"u{i}".encode() for i in range(200)]


@given(st.binary(max_size=40))
def test_keys_are_hashed_as_kafka_s_own_clients_hash_them(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_aiokafka(key) & 0xFFFFFFFF


@pytest.mark.parametrize(("key", "hashed"), [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107)])
def test_known_hashes_of_java_s_client(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(st.lists(st.binary(max_size=100), max_size=20), st.integers(1, 300))
def test_a_column_of_keys_lies_where_each_of_them_does(keys: list[bytes], num: int) -> None:
    assert partitions_of(keys, num).tolist() == [partition_of(key, num) for key in keys]


def test_keys_where_they_belong_are_well() -> None:
    assert misplaced("clicks", 4, [(partition_of(key, 4), key) for key in USERS]) is None
    assert misplaced("clicks", 4, []) is None


def test_what_is_wrong_is_told_with_its_remedy() -> None:
    crc = misplaced("clicks", 4, [(zlib.crc32(key) % 4, key) for key in USERS])
    assert crc is not None
    assert "partitioner=murmur2_random" in crc
    turns = misplaced("clicks", 4, [(i % 4, key) for i, key in enumerate(USERS)])
    assert turns is not None
    assert "default partitioner (murmur2)" in turns
    none = misplaced("clicks", 4, [(0, None)])
    assert none == "1 of the latest 1 records of clicks have no key; key them by the user"


def test_a_stray_record_keeps_no_worker_from_starting() -> None:
    """It cannot be mended any more, and is dead-lettered."""
    well: list[tuple[int, bytes | None]] = [(partition_of(key, 4), key) for key in USERS]
    assert misplaced("clicks", 4, [*well, (2, None)]) is None
    assert misplaced("clicks", 4, [*well, *((partition_of(key, 4) ^ 1, key) for key in USERS[:5])]) is None
    assert misplaced("clicks", 4, [*well[:40], *[(2, None)] * 5]) is not None


def test_one_topic_may_place_users_as_it_likes_but_not_without_keys() -> None:
    assert torn("views", [(i % 4, key) for i, key in enumerate(USERS)]) is None
    assert torn("views", []) is None
    told = torn("views", [(i % 4, None) for i in range(8)])
    assert told is not None
    assert "8 of the latest 8 records of views have no key" in told
    assert "recd route views" in told
