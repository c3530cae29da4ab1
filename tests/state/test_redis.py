"""What only the Redis store has: connections, and the names of their failures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from redis import Redis

from infra.services.ports import LOOPBACK
from state.redis import RedisConfig, RedisStore
from state.redis_profiles import RedisProfiles
from state.store import MISSING, Versioned
from streams.errors import ConfigError, InvariantError, RetryableError

LIMITS = {"client-query-buffer-limit": "9mb", "client-output-buffer-limit": "normal 64mb 0 0"}
"""What a client may send at once, and have waiting for it."""


def test_a_server_that_is_not_there_is_worth_a_retry() -> None:
    store = RedisStore(RedisConfig(url=f"redis://{LOOPBACK}:1/0", timeout_ms=200))
    with pytest.raises(RetryableError, match="Redis did not do what was asked"):
        store.get_many(["a"])


def test_an_address_that_is_none_is_a_mistake_in_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"redis\.url 'localhost:6379' cannot be used"):
        RedisStore(RedisConfig(url="localhost:6379"))
    with pytest.raises(ConfigError, match=r"redis\.timeout_ms must be positive"):
        RedisConfig(timeout_ms=0)


def test_a_refused_password_is_a_mistake_in_the_configuration(redis: str) -> None:
    store = RedisStore(RedisConfig(url=redis.replace("://", "://nobody:wrong@")))
    with pytest.raises(ConfigError, match="check user and password"):
        store.get_many(["a"])
    store.close()


def test_many_callers_share_few_connections(redis: str) -> None:
    store = RedisStore(RedisConfig(url=f"{redis}?client_name=few", max_connections=2, timeout_ms=10_000))
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda i: store.get_many([f"connections/{i}"]), range(200)))
    assert len(answers) == 200
    assert sum(client["name"] == "few" for client in Redis.from_url(redis).client_list()) <= 2
    store.close()


def test_a_key_of_another_type_is_a_broken_promise(redis: str) -> None:
    Redis.from_url(redis).rpush("foreign/list", "x")
    store = RedisStore(RedisConfig(url=redis))
    with pytest.raises(InvariantError, match="Redis holds something else than we stored"):
        store.compare_and_set("foreign/list", 1, Versioned(2, b""), None)
    store.close()


def test_a_server_that_evicts_is_refused_at_the_start(redis: str) -> None:
    admin = Redis.from_url(redis)
    store = RedisStore(RedisConfig(url=redis))
    store.check()
    admin.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(ConfigError, match=r"evicts keys when it is full \(allkeys-lru\)"):
            store.check()
    finally:
        admin.config_set("maxmemory-policy", "noeviction")
        store.close()


def test_a_server_that_is_full_is_worth_a_retry(redis: str) -> None:
    admin = Redis.from_url(redis)
    store = RedisStore(RedisConfig(url=redis))
    admin.config_set("maxmemory", 1)
    try:
        for ttl_ms in (None, 1000):
            with pytest.raises(RetryableError, match="Redis is full"):
                store.put_many({"full": b"1"}, ttl_ms)
    finally:
        admin.config_set("maxmemory", 0)
    assert store.get_many(["full"]) == [MISSING]
    store.close()


def test_a_server_that_lacks_replicas_is_worth_a_retry(redis: str) -> None:
    admin = Redis.from_url(redis)
    store = RedisStore(RedisConfig(url=redis))
    admin.config_set("min-replicas-to-write", 1)
    try:
        for ttl_ms in (None, 1000):
            with pytest.raises(RetryableError, match="Redis takes no writes at the moment: NOREPLICAS"):
                store.put_many({"alone": b"1"}, ttl_ms)
    finally:
        admin.config_set("min-replicas-to-write", 0)
    store.close()


def refused_as_read_only(store: RedisStore) -> bool:
    """Whether a write is refused in that way and no other."""
    try:
        store.put_many({"demoted": b"1"}, None)
    except RetryableError as error:
        return "Redis has become read-only" in str(error)
    return False


def test_a_server_that_was_demoted_is_worth_a_retry_to_everybody_and_is_looked_up_anew(redis: str) -> None:
    admin = Redis.from_url(redis)
    store = RedisStore(RedisConfig(url=f"{redis}?client_name=demoted", max_connections=4, timeout_ms=10_000))
    store.put_many({"demoted": b"0"}, None)
    admin.replicaof(LOOPBACK, "1")
    try:
        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(lambda _: refused_as_read_only(store), range(300)))
        assert refused_as_read_only(store)
        assert not any(client["name"] == "demoted" for client in admin.client_list()), "old connections never ask again"
    finally:
        admin.replicaof("NO", "ONE")
    store.put_many({"demoted": b"2"}, None)
    assert store.get_many(["demoted"]) == [b"2"]
    store.close()


def test_an_answer_that_comes_too_late_is_never_given_to_the_next_caller(redis: str) -> None:
    store = RedisProfiles(RedisConfig(url=redis, timeout_ms=100, max_connections=1))
    shelf = "late-answers"
    assert store.write(shelf, {1: b"one", 2: b"two"}, MISSING, b"tag")
    admin = Redis.from_url(redis)
    for _ in range(3):
        admin.client_pause(300, all=True)
        with pytest.raises(RetryableError, match="Timeout"):
            store.read(shelf, [1])
        admin.ping()  # The pause is over.
        assert store.read(shelf, [2]) == (b"tag", [b"two"])
    store.close()


def test_large_profiles_go_in_commands_that_a_server_with_limits_takes_and_answers(redis: str) -> None:
    admin = Redis.from_url(redis)
    before = {name: str(admin.config_get(name)[name]) for name in LIMITS}
    for name, value in LIMITS.items():
        admin.config_set(name, value)
    try:
        large = {user: bytes([user]) * 400_000 for user in range(250)}
        for store in (RedisProfiles(RedisConfig(url=redis)), RedisProfiles(RedisConfig(url=redis))):
            tag = store.read("large", [])[0]
            assert store.write("large", large, tag, b"tag")
            users = [*range(10_000, 12_000), *large]
            assert store.read("large", users) == (b"tag", [MISSING] * 2_000 + list(large.values()))
            assert store.read("large", users[::-1]) == (b"tag", [*list(large.values())[::-1]] + [MISSING] * 2_000)
            store.close()
    finally:
        for name, value in before.items():
            admin.config_set(name, value)
        admin.delete("large")


def test_a_stale_connection_is_replaced_after_a_restart_of_the_server(redis: str) -> None:
    store = RedisStore(RedisConfig(url=redis))
    store.put_many({"restart": b"1"}, 60_000)
    Redis.from_url(redis).client_kill_filter(_type="normal", skipme=True)
    assert store.get_many(["restart"]) == [b"1"]
    store.close()
