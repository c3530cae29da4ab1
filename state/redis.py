"""RedisStore: the Store that processes share, on Redis or Valkey.

Owns the commands, the connections and what their failures mean. Never decides what is stored.

Few big commands, because a command costs the client more than a key costs the server: MGET and MSET in chunks, one
script for values with a time to live (value and time in one act, so that no value is left without one), one script
for compare-and-set. Callers wait for a free connection up to the time-out; the number of connections is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from queue import Empty
from typing import Any, ClassVar, Final, TypeVar

import redis
from redis import exceptions

from state.store import MISSING, Missing, Versioned, check_values, version_bytes
from streams.errors import ConfigError, InvariantError, RetryableError
from streams.strict import STRICT

_Item = TypeVar("_Item")

_FULL: Final = "command not allowed when used memory"
_NOT_NOW: Final = ("NOREPLICAS", "MISCONF", "BUSY ")
"""A server that will take writes again: too few replicas, a snapshot that failed, a script that runs for too long."""
_CHUNK: Final = 1000
"""Keys a command: long enough to be cheap, short enough not to hold up other clients."""

_PUT_WITH_TTL: Final = """
for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[i + 1], 'PX', ARGV[1]) end
"""
_COMPARE_AND_SET: Final = """
local found = redis.call('GET', KEYS[1])
if found and string.byte(found, 1) ~= 1 then return -1 end
local head = found and string.sub(found, 1, 9) or ''
if head ~= ARGV[1] then return 0 end
if ARGV[3] == '' then redis.call('SET', KEYS[1], ARGV[2]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1
"""

_TRANSIENT: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.TryAgainError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RedisConfig:
    """Where Redis is and how long to wait for it."""

    __pydantic_config__: ClassVar = STRICT

    url: str = "redis://127.0.0.1:6379/0"
    """Address, with user, password and database if there are any: redis://, rediss:// or unix://."""
    timeout_ms: int = 2000
    """How long to wait for a connection, for a free one and for an answer."""
    max_connections: int = 8
    """Connections of one process at most; further callers wait."""

    def __post_init__(self) -> None:
        if self.timeout_ms <= 0:
            raise ConfigError("redis.timeout_ms must be positive")
        if self.max_connections <= 0:
            raise ConfigError("redis.max_connections must be positive")


class RedisServer:
    """What our stores share: the connections to one server, made when first used, and what its failures mean."""

    def __init__(self, config: RedisConfig) -> None:
        """Raise ConfigError for a URL that is none."""
        seconds = config.timeout_ms / 1000
        try:
            self._pool = redis.BlockingConnectionPool.from_url(
                config.url,
                max_connections=config.max_connections,
                timeout=seconds,
                socket_timeout=seconds,
                socket_connect_timeout=seconds,
            )
        except ValueError as error:
            raise ConfigError(f"redis.url {config.url!r} cannot be used: {error}") from error
        self.client = redis.Redis(connection_pool=self._pool)

    def check(self) -> None:
        """Raise ConfigError if the server may throw values away when it is full, RetryableError if it is not there."""
        with self.failures_named():
            memory: Any = self.client.info("memory")
        policy = memory.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise ConfigError(f"Redis evicts keys when it is full ({policy}); set maxmemory-policy to noeviction")

    def close(self) -> None:
        """Close all connections. The stores must not be used afterwards."""
        self._pool.disconnect()

    def _disconnect_idle(self) -> None:
        """Close the connections that nobody uses: one in use belongs to a caller, who finds out for himself.

        The pool's own way closes what another caller takes meanwhile, and breaks his command in the middle.
        """
        idle: list[Any] = []
        with suppress(Empty):
            while True:
                idle.append(self._pool.pool.get_nowait())
        for connection in idle:
            if connection is not None:
                connection.disconnect()
            self._pool.pool.put_nowait(connection)

    @contextmanager
    def failures_named(self) -> Iterator[None]:
        """Redis's errors as ours."""
        try:
            yield
        except (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError) as error:
            raise ConfigError(f"Redis refuses us: {error}; check user and password in redis.url") from error
        except exceptions.ReadOnlyError as error:
            # The server has become a replica. New connections ask again who is the primary; old ones never do.
            self._disconnect_idle()
            raise RetryableError(f"Redis has become read-only: {error}") from error
        except _TRANSIENT as error:
            raise RetryableError(f"Redis did not do what was asked: {error}; start it, or correct redis.url") from error
        except exceptions.ResponseError as error:
            if _FULL in str(error):
                raise RetryableError("Redis is full; raise maxmemory or remove what else is stored there") from error
            if any(word in str(error) for word in _NOT_NOW):
                raise RetryableError(f"Redis takes no writes at the moment: {error}") from error
            raise InvariantError(f"Redis holds something else than we stored: {error}") from error


class RedisStore:
    """A Store on one server."""

    def __init__(self, config: RedisConfig) -> None:
        """Raise ConfigError for a URL that is none."""
        self._server = RedisServer(config)
        self._client = self._server.client
        self._put_with_ttl = self._client.register_script(_PUT_WITH_TTL)
        self._compare_and_set = self._client.register_script(_COMPARE_AND_SET)

    def get_many(self, keys: Sequence[str]) -> list[bytes | Missing]:
        found: list[Any] = []
        with self._server.failures_named():
            for chunk in chunks(keys):
                found += self._client.mget(chunk)
        return [MISSING if value is None else value for value in found]

    def put_many(self, values: Mapping[str, bytes], ttl_ms: int | None) -> None:
        check_values(values, ttl_ms)
        with self._server.failures_named():
            for chunk in chunks(values.items()):
                if ttl_ms is None:
                    self._client.mset(dict(chunk))
                else:
                    self._put_with_ttl(keys=[key for key, _ in chunk], args=[ttl_ms, *(value for _, value in chunk)])

    def delete_many(self, keys: Sequence[str]) -> None:
        with self._server.failures_named():
            for chunk in chunks(keys):
                self._client.unlink(*chunk)

    def compare_and_set(self, key: str, expected: int | Missing, new: Versioned, ttl_ms: int | None) -> bool:
        check_values({key: new.blob}, ttl_ms)
        head = b"" if expected is MISSING else version_bytes(expected)
        with self._server.failures_named():
            answer = self._compare_and_set(keys=[key], args=[head, new.encode(), "" if ttl_ms is None else ttl_ms])
        if answer == -1:
            raise InvariantError(f"{key} holds no versioned value; who wrote it?")
        return bool(answer)

    def check(self) -> None:
        """As `RedisServer.check`."""
        self._server.check()

    def close(self) -> None:
        """Close all connections. The store must not be used afterwards."""
        self._server.close()


def chunks(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """The items in lists of `_CHUNK`; nothing at all where there are none."""
    iterator = iter(items)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
