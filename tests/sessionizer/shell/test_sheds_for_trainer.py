"""A real worker goes on without a trainer by shedding, and one that takes over sheds by the marks that it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from sessionizer.gate import SHUT_AT
from streams.clock_mark import WHOLE, ClockMark, MarkKind
from tests.sessionizer.shell.memory import Log
from tests.sessionizer.shell.test_shed import undisturbed
from tests.sessionizer.shell.test_waits_for_trainer import commit, settled, sizes
from tests.sessionizer.shell.town import Town, town
from tests.sessionizer.shell.world import events, identities, records

BOUND = 20_000
SOME = events(3_000, seed=21)


def marks(place: Town) -> list[ClockMark]:
    """Of the clock topic, in its order."""
    return [ClockMark.decode(message.value() or b"") for message in place.read(place.topics.clock, 0)]


def shares(place: Town) -> list[int]:
    """What was decided, in eighths."""
    return [mark.shed_share * 8 // WHOLE for mark in marks(place) if mark.kind is MarkKind.SHED]


def train_late(place: Town) -> None:
    """As a trainer whose checkpoints leave more than the bound behind, but less than would stop the output."""
    waiting = 0
    for offset, size in reversed(sizes(place)):
        waiting += size
        if waiting > 1.2 * BOUND:
            commit(place, offset)
            return


def test_a_worker_sheds_counts_it_and_is_made_again_by_its_marks_after_a_kill(kafka: str, tmp_path: Path) -> None:
    small: dict[str, Any] = {
        "max_poll_records": 50,
        "max_queue_records": 100,
        "drain_ms": 500,
        "max_ahead_bytes": BOUND,
        "when_ahead": "shed",
        "shed_step_ms": 20,
    }
    with town(kafka, "worker-sheds", tmp_path) as place:
        place.produce(0, SOME)
        place.end(0, len(SOME))
        first = place.start(**small)
        while '"share": 0.25' not in place.logs():
            assert first.poll() is None, "it ended before it had decided twice"
            train_late(place)  # or output could wait before the share has risen
        first.kill()
        first.wait()
        assert sum(size for _, size in sizes(place)) > BOUND, "it went on though the trainer is behind"
        decided = shares(place)
        second = place.start(**small)
        while second.poll() is None:
            train_late(place)
            place.clock.sleep(100)
        told = place.summary(second)
        account = cast("dict[str, int]", told["account"])
        log = Log(records=records(SOME), clock=marks(place))
        expected, counted = undisturbed(log)
        assert identities(place.batches(0)) == identities(expected)
        assert decided[0] == 1
        assert shares(place)[: len(decided)] == decided, "nothing is decided twice"
        assert (account["emitted"], account["shed"]) == (counted.emitted, counted.shed)
        assert account["shed"] > 0
        assert account["labelled"] == account["emitted"] + account["shed"]
        assert (told["ended"], told["held"]) == (True, 0)


def test_shedding_stops_at_the_last_resort_and_the_output_waits(kafka: str, tmp_path: Path) -> None:
    bound = BOUND // 4
    with town(kafka, "worker-sheds-and-waits", tmp_path) as place:
        place.produce(0, SOME)
        place.start(
            max_poll_records=50, max_queue_records=100, max_ahead_bytes=bound, when_ahead="shed", shed_step_ms=60_000
        )
        place.wait_for_log(0, "output waits for the trainer")
        found = settled(place)
        largest = max(size for _, size in found)
        assert SHUT_AT * bound <= sum(size for _, size in found) < SHUT_AT * bound + 4 * largest
        place.clock.sleep(2_000)
        assert sizes(place) == found
        assert shares(place) == [1]
