"""What only the Redis store has: connections, and the names of their failures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from redis import Redis

from infra.services.ports import LOOPBACK
from state.redis import RedisConfig, RedisStore
from state.store import MISSING, Versioned
from streams.errors import ConfigError, InvariantError, RetryableError


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


def test_a_stale_connection_is_replaced_after_a_restart_of_the_server(redis: str) -> None:
    store = RedisStore(RedisConfig(url=redis))
    store.put_many({"restart": b"1"}, 60_000)
    Redis.from_url(redis).client_kill_filter(_type="normal", skipme=True)
    assert store.get_many(["restart"]) == [b"1"]
    store.close()
