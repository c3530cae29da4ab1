"""A real worker on a real Kafka gives what the core gives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.sessionizer.shell.town import Town, town
from tests.sessionizer.shell.world import events, identities, records, reference


def test_a_worker_emits_the_batches_of_an_undisturbed_core_and_ends_at_its_marks(kafka: str, tmp_path: Path) -> None:
    pairs = [events(2_000, seed=1), events(1_500, seed=2), []]
    with town(kafka, "worker-plain-run", tmp_path, partitions=3) as place:
        for partition, some in enumerate(pairs):
            place.produce(partition, some)
            place.end(partition, len(some))
        summary = place.summary(place.start())
        assert summary["ended"]
        assert summary["held"] == 0
        assert summary["partitions"] == [0, 1, 2]
        for partition, some in enumerate(pairs):
            expected, _ = reference(records(some, partition), partition)
            assert identities(place.batches(partition)) == identities(expected)
            assert place.ends(partition) == 1
        letters = [m for p in range(3) for m in place.read(place.topics.dead_letter, p)]
        assert len(letters) == sum(len(some) // 97 for some in pairs)


def test_a_worker_that_is_started_again_after_the_end_adds_nothing(kafka: str, tmp_path: Path) -> None:
    some = events(500, seed=3)
    with town(kafka, "worker-twice", tmp_path) as place:
        place.produce(0, some)
        place.end(0, len(some))
        first = place.summary(place.start())
        before = identities(place.batches(0))
        assert place.summary(place.start()) == first
        assert identities(place.batches(0)) == before
        assert place.ends(0) == 1


def test_an_end_mark_with_records_behind_it_is_not_the_end(kafka: str, tmp_path: Path) -> None:
    some = events(500, seed=4)
    with town(kafka, "worker-early-end", tmp_path, partitions=2) as place:
        # Ended while empty, then filled: the worker finds the first mark before it has fetched anything.
        place.end(0, 0)
        place.end(1, 0)
        place.produce(0, some)
        place.end(0, len(some))
        summary = place.summary(place.start())
        assert dict(summary["account"])["events"] == len(some)  # type: ignore[call-overload]  # JSON
        assert place.ends(0) == 2
        assert place.ends(1) == 1


def test_a_second_source_may_not_write_into_the_same_mini_batches(kafka: str, tmp_path: Path) -> None:
    some = events(200, seed=4)
    with town(kafka, "worker-first-source", tmp_path) as first, town(kafka, "worker-other-source", tmp_path) as other:
        first.produce(0, some)
        first.end(0, len(some))
        first.summary(first.start())
        before = identities(first.batches(0))
        other.topics = replace(other.topics, minibatches=first.topics.minibatches)
        other.build()
        process = other.start()
        process.communicate(timeout=100)
        assert process.returncode != 0
        assert "two sources in it would be taken for copies of each other" in other.logs()
        assert identities(first.batches(0)) == before


def test_a_worker_that_finds_nothing_to_read_stays_in_its_group_until_there_is_something(
    kafka: str, tmp_path: Path
) -> None:
    some = events(300, seed=6)
    with town(kafka, "worker-nothing-yet", tmp_path) as place:
        worker = place.start(max_poll_ms=2_000)
        place.wait_for_log(0, "partitions assigned")
        place.clock.sleep(6_000)
        place.produce(0, some)
        place.end(0, len(some))
        assert place.summary(worker)["ended"]
        assert place.logs().count('"partitions assigned"') == 1
        expected, _ = reference(records(some))
        assert identities(place.batches(0)) == identities(expected)


def test_a_worker_too_many_holds_nothing_until_it_is_needed(kafka: str, tmp_path: Path) -> None:
    some = events(600, seed=8)
    with town(kafka, "worker-too-many", tmp_path) as place:
        workers = [place.start(), place.start()]
        place.produce(0, some[:300])
        held: list[list[int] | None] = [None, None]
        while [] not in held or [0] not in held:
            assert all(worker.poll() is None for worker in workers), place.logs()
            place.clock.sleep(50)
            held = [partitions_of(place, number) for number in (0, 1)]
        owner = held.index([0])
        place.wait_for_output(1)
        workers[owner].kill()
        workers[owner].wait()
        place.produce(0, some[300:])
        place.end(0, len(some))
        summary = place.summary(workers[1 - owner])
        assert (summary["ended"], summary["partitions"]) == (True, [0])
        expected, _ = reference(records(some))
        assert identities(place.batches(0)) == identities(expected)


def partitions_of(place: Town, worker: int) -> list[int] | None:
    """What a worker was assigned last; None before the group has said anything."""
    lines = (place.directory / f"worker-{worker}.log").read_text().splitlines()
    told = [json.loads(line) for line in lines if '"partitions assigned"' in line]
    return told[-1]["partitions"] if told else None
