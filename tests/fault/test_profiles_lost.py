"""Profiles in Redis, on real services: whatever befalls Redis or the worker, no mini-batch is another one.

Redis is emptied, stopped, put back to an older snapshot, and not told what Kafka has committed.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from redis import Redis

from infra.clock import Clock, Deadline
from infra.services import ports
from infra.services.redis import RedisServer
from infra.services.toolchain import Toolchain
from sessionizer.changelog import user_of
from state.profile_store import Tag, shelf_name
from state.redis import RedisConfig
from state.redis_profiles import TAG_FIELD, RedisProfiles
from tests.sessionizer.shell.town import WAIT_MS, Town, town
from tests.sessionizer.shell.world import events, identities, records, reference

EVENTS = 3_000
USERS = 300


@dataclass
class OwnRedis:
    """A server that a test may mistreat."""

    server: RedisServer
    through: int = -1
    """`through_of` the state that a test wants to go back to."""

    @property
    def data(self) -> Path:
        return self.server.directory / "data"

    def start(self) -> None:
        child = self.server.start(tied=True)
        self.server.wait_ready(child, Deadline.after(self.server.clock, 30_000))

    def client(self) -> Redis:
        return Redis.from_url(self.server.url)


@contextmanager
def own_redis(directory: Path) -> Iterator[OwnRedis]:
    directory.mkdir()
    own = OwnRedis(RedisServer(Toolchain.of_process().redis(), directory, ports.choose(directory, ()), Clock()))
    own.start()
    try:
        yield own
    finally:
        own.server.stop()


Befall = Callable[[Town, OwnRedis, int, Callable[[], None]], None]
"""What happens around the moment at which a third of the events is produced, which it does by its last argument."""


def run_with(kafka: str, name: str, directory: Path, befall: Befall, dies_at: int = 0) -> str:
    """Feed a partition in thirds; the batches must be those of the reference. Returns what the workers logged."""
    pairs = events(EVENTS, seed=50, users=USERS)
    third = EVENTS // 3
    with own_redis(directory / "redis") as own, town(kafka, name, directory) as place:
        place.redis = own.server.url
        place.start(instance="only", max_poll_records=50, dies_at=dies_at)
        for number in range(3):
            before = place.num_output() if number else 0  # A new topic has no leader yet.
            befall(place, own, number, partial(place.produce, 0, pairs[number * third : (number + 1) * third]))
            place.wait_for_output(before + 3)
        place.end(0, EVENTS)
        summary = place.summary(place.workers[-1])
        assert summary["ended"], place.logs()
        expected, _ = reference(records(pairs))
        assert identities(place.batches(0)) == identities(expected)
        assert_store_holds_the_changelog(place, own)
        return place.logs()


def assert_store_holds_the_changelog(place: Town, own: OwnRedis) -> None:
    """What Redis holds in the end is what the changelog says, and most users were not in the worker's memory."""
    truth = {user_of(m.key() or b""): m.value() for m in place.read(place.topics.profiles, 0)}
    shelf = shelf_name(place.topics.profiles, 0)
    store = RedisProfiles(RedisConfig(url=own.server.url))
    tag, values = store.read(shelf, list(truth))
    assert values == list(truth.values())
    assert isinstance(tag, bytes)
    assert own.client().hlen(shelf) == len(truth) + 1, "the tag is a field too"
    store.close()
    assert len(truth) > 50


def nothing(_place: Town, _own: OwnRedis, _number: int, produce: Callable[[], None]) -> None:
    produce()


def emptied(place: Town, own: OwnRedis, number: int, produce: Callable[[], None]) -> None:
    produce()
    if number:
        place.clock.sleep(300)
        own.client().flushall()


def stopped(place: Town, own: OwnRedis, number: int, produce: Callable[[], None]) -> None:
    if number == 1:
        own.server.stop()
    produce()
    if number == 1:
        place.wait_for_log(0, "waits for its users' profiles")
        place.clock.sleep(2_000)
        own.start()


def through_of(own: OwnRedis, shelf: str) -> int:
    """Up to which offset of the changelog the copy says that it is whole; -1: it does not say."""
    tag = cast("bytes | None", own.client().hget(shelf, TAG_FIELD))
    decoded = None if tag is None else Tag.decode(tag)
    return decoded.offset if isinstance(decoded, Tag) else -1


def rolled_back(place: Town, own: OwnRedis, number: int, produce: Callable[[], None]) -> None:
    snapshot = own.server.directory / "snapshot"
    shelf = shelf_name(place.topics.profiles, 0)
    deadline = Deadline.after(place.clock, WAIT_MS)
    if number == 1:
        # Nothing may be written between the look at the tag and the snapshot.
        own.client().client_pause(60_000, all=False)
        own.through = through_of(own, shelf)
    while number == 2 and through_of(own, shelf) == own.through:
        assert not deadline.passed, place.logs()
        place.clock.sleep(50)
    if number:
        own.server.stop()
        source, target = (own.data, snapshot) if number == 1 else (snapshot, own.data)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        own.start()
    produce()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("befall", "words"),
    [
        (nothing, ""),
        (emptied, "profiles are repaired from the changelog"),
        (stopped, "waits for its users' profiles"),
        (rolled_back, "profiles are repaired from the changelog"),
    ],
)
def test_what_befalls_redis_changes_no_mini_batch(kafka: str, tmp_path: Path, befall: Befall, words: str) -> None:
    logs = run_with(kafka, f"profiles-{befall.__name__.replace('_', '-')}", tmp_path, befall)
    assert words in logs
    assert words or "repaired" not in logs
    away = 2 if befall is rolled_back else 1
    assert logs.count("waits for its users' profiles") <= away, "it is said once each time that Redis is away"
    assert "will be recovered" not in logs, "what was held is kept"


@pytest.mark.timeout(900)
def test_a_worker_killed_between_kafkas_commit_and_redis_repairs_what_redis_has_not_heard_of(
    kafka: str, tmp_path: Path
) -> None:
    def killed(place: Town, own: OwnRedis, number: int, produce: Callable[[], None]) -> None:
        produce()
        if number == 0:
            place.workers[-1].wait(100)
            assert place.workers[-1].returncode == -signal.SIGKILL, place.logs()
            assert behind(place, own) > 0, "Kafka holds profiles that Redis has not heard of"
            place.start(instance="only", max_poll_records=50)

    assert "profiles are repaired from the changelog" in run_with(kafka, "profiles-killed", tmp_path, killed, dies_at=2)


def behind(place: Town, own: OwnRedis) -> int:
    """Records of the changelog that are not in Redis."""
    store = RedisProfiles(RedisConfig(url=own.server.url))
    found, _ = store.read(shelf_name(place.topics.profiles, 0), [])
    store.close()
    tag = Tag.decode(found) if isinstance(found, bytes) else None
    after = 0 if not isinstance(tag, Tag) else tag.offset
    return sum((message.offset() or 0) >= after for message in place.read(place.topics.profiles, 0))
