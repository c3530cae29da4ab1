"""RedisProfiles: the ProfileStore that processes share, on Redis or Valkey.

Owns the commands. A shelf is one hash: a field for each user (the number, in decimal) and one for the tag, so tag and
profiles are read in one command, and a shelf that is lost is lost together with its tag.

Commands are few and big, but no bigger than is good for others who use the server: a profile may have half a megabyte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from state.redis import RedisConfig, RedisServer
from state.store import MISSING, Missing

TAG_FIELD: Final = "tag"

_MOST_BYTES: Final = 4 << 20
"""Of profiles in a command; with one very large profile, more."""
_MOST_USERS: Final = 1_000
_FIRST_USERS: Final = 128
"""Read at once while nothing is known of their size, as of users who have no profile yet."""

_SCRIPT: Final = """
local shelf = KEYS[1]
if (redis.call('HGET', shelf, ARGV[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[4] == 'clear' then redis.call('UNLINK', shelf) end
for i = 5, #ARGV, 2 do
  if ARGV[i + 1] == '' then redis.call('HDEL', shelf, ARGV[i]) else redis.call('HSET', shelf, ARGV[i], ARGV[i + 1]) end
end
if ARGV[3] ~= '' then redis.call('HSET', shelf, ARGV[1], ARGV[3]) end
return 1
"""
"""ARGV: field of the tag, tag expected, new tag (empty: as it is), `clear` or nothing, then users and profiles. An
empty string stands for what is not there: neither a tag nor a profile is ever empty."""


class RedisProfiles:
    """A ProfileStore on one server. Connects when first used."""

    def __init__(self, config: RedisConfig) -> None:
        """Raise ConfigError for a URL that is none."""
        self._server = RedisServer(config)
        self._client = self._server.client
        self._change = self._client.register_script(_SCRIPT)
        self._at_once, self._largest = _FIRST_USERS, 0

    def read(self, shelf: str, users: Sequence[int]) -> tuple[bytes | Missing, list[bytes | Missing]]:
        tags: set[bytes | None] = set()
        found: list[Any] = []
        with self._server.failures_named():
            # Where there is no user there is still a tag to be read.
            while not tags or len(found) < len(users):
                chunk = users[len(found) : len(found) + self._at_once]
                answer: Any = self._client.hmget(shelf, [TAG_FIELD, *map(str, chunk)])
                tags.add(answer[0])
                found += answer[1:]
                self._learn(answer[1:])
        tag = tags.pop() if len(tags) == 1 else None
        return MISSING if tag is None else tag, [MISSING if value is None else value for value in found]

    def _learn(self, values: Iterable[bytes | None]) -> None:
        """Read as many at once as fit, by the largest that was ever seen."""
        self._largest = max(self._largest, *(len(value or b"") for value in values), 0)
        if self._largest:
            self._at_once = max(1, min(_MOST_USERS, _MOST_BYTES // self._largest))

    def write(self, shelf: str, values: Mapping[int, bytes | None], expected: bytes | Missing, tag: bytes) -> bool:
        parts = list(_parts(values)) or [[]]
        for number, part in enumerate(parts, 1):
            if not self._run(shelf, expected, tag if number == len(parts) else b"", b"", part):
                return False
        return True

    def clear(self, shelf: str, expected: bytes | Missing, tag: bytes) -> bool:
        return self._run(shelf, expected, tag, b"clear", [])

    def check(self) -> None:
        """As `RedisServer.check`."""
        self._server.check()

    def close(self) -> None:
        """Close all connections. The store must not be used afterwards."""
        self._server.close()

    def _run(
        self, shelf: str, expected: bytes | Missing, tag: bytes, what: bytes, pairs: Sequence[bytes | str]
    ) -> bool:
        found = b"" if expected is MISSING else expected
        with self._server.failures_named():
            return bool(self._change(keys=[shelf], args=[TAG_FIELD, found, tag, what, *pairs]))


def _parts(values: Mapping[int, bytes | None]) -> Iterator[list[bytes | str]]:
    """Users and profiles by turns, as many as fit a command."""
    part: list[bytes | str] = []
    num_bytes = 0
    for user, value in values.items():
        data = value or b""
        if part and (len(part) == 2 * _MOST_USERS or num_bytes + len(data) > _MOST_BYTES):
            yield part
            part, num_bytes = [], 0
        part += [str(user), data]
        num_bytes += len(data)
    if part:
        yield part
