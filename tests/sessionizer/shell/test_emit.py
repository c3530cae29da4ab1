"""An outlet on a real Kafka that another owner has fenced says so, whatever it is asked, and can be closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessionizer import emit
from sessionizer.emit import PlainOutlet, open_outlet
from sessionizer.outlet import FencedError
from sessionizer.progress import Progress
from sessionizer.worker_config import WorkerConfig
from streams.errors import ConfigError
from tests.sessionizer.shell.town import Town, town

CALLS: dict[str, Callable[[PlainOutlet], object]] = {
    "cut": lambda outlet: outlet.send_cut(b"cut", 1, 0),
    "commit": lambda outlet: outlet.commit(Progress()),
}


@contextmanager
def opened(place: Town) -> Iterator[PlainOutlet]:
    """An outlet with a record in an open transaction; its client goes with the test, before its broker does."""
    outlet = open_outlet(0, place.kafka, place.topics, WorkerConfig(app=place.topics.minibatches))
    try:
        outlet.send_end(0)
        yield outlet
    finally:
        # A fenced client cannot be closed, only let go of; the errors it gave still hold the outlet.
        del outlet._producer


@pytest.mark.parametrize("first", CALLS)
def test_a_fenced_outlet_says_so_at_every_call_and_closes_in_silence(kafka: str, tmp_path: Path, first: str) -> None:
    with town(kafka, f"emit-fenced-{first}", tmp_path) as place, opened(place) as older, opened(place) as newer:
        for call in (CALLS[first], *CALLS.values()):
            with pytest.raises(FencedError, match="another worker has taken over partition 0"):
                call(older)
        older.close()
        newer.commit(Progress())
        newer.close()
        assert place.ends(0) == 1


def test_a_fenced_outlet_whose_records_were_refused_says_so(kafka: str, tmp_path: Path) -> None:
    with town(kafka, "emit-fenced-send", tmp_path) as place, opened(place) as older, opened(place) as newer:

        def send_until_refused() -> None:
            for _ in range(1_000):
                older.send_end(0)
                place.clock.sleep(10)

        with pytest.raises(FencedError):
            send_until_refused()
        with pytest.raises(FencedError):
            older.send_end(0)
        older.close()
        newer.close()


def test_transactions_that_the_broker_finds_too_long_are_refused_at_once_with_what_to_do(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A broker allows a quarter of an hour, unless told otherwise.
    monkeypatch.setattr(emit, "_TIMEOUT_MS", 1_000_000)
    words = r"lower worker\.session_timeout_ms, or raise .* transaction\.max\.timeout\.ms"
    with town(kafka, "emit-long", tmp_path) as place, pytest.raises(ConfigError, match=words):
        open_outlet(0, place.kafka, place.topics, WorkerConfig(app=place.topics.minibatches))


def test_a_worker_that_slept_for_less_than_a_session_is_not_fenced_by_its_own_transaction(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emit, "_TIMEOUT_MS", 1_000)
    with town(kafka, "emit-slept", tmp_path) as place:
        config = WorkerConfig(app=place.topics.minibatches, session_timeout_ms=30_000)
        outlet = open_outlet(0, place.kafka, place.topics, config)
        outlet.send_end(0)
        place.clock.sleep(4_000)  # Our broker looks for those that have run out every second.
        outlet.commit(Progress())
        outlet.close()
        assert place.ends(0) == 1
