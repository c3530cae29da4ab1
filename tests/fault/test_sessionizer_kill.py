"""Rebalances, sleepers and twins: every accepted event is in the committed mini-batches once, as in an undisturbed run.

Deaths are in `test_audit_sessionizer`.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from streams.kafka import client
from tests.sessionizer.shell.town import Town, town
from tests.sessionizer.shell.world import events, identities, records, reference

PARTITIONS = 2
EVENTS = 4_000


def assert_exactly_once(place: Town, pairs: list[list[tuple[bytes, bytes]]]) -> None:
    """Batches, their order, lineage and end records are those of an undisturbed run; so are the dead letters."""
    for partition, some in enumerate(pairs):
        expected, _ = reference(records(some, partition), partition)
        assert identities(place.batches(partition)) == identities(expected)
        assert place.ends(partition) == 1
        letters = place.read(place.topics.dead_letter, partition)
        sources = [int(dict(message.headers() or ())["recd-source-offset"] or b"") for message in letters]
        assert sources == [i for i in range(len(some)) if i % 97 == 96]


def committed(place: Town) -> list[int]:
    """What the group's offsets tell observers, by partition."""
    observer = client.consumer(place.kafka, group=f"{place.topics.minibatches}-app")
    try:
        asked = [TopicPartition(place.topics.interactions, partition) for partition in range(PARTITIONS)]
        return [each.offset for each in observer.committed(asked, timeout=10)]
    finally:
        observer.close()


@pytest.mark.timeout(900)
def test_partitions_that_move_between_workers_repeat_and_lose_nothing(kafka: str, tmp_path: Path) -> None:
    pairs = [events(EVENTS, seed=20 + partition) for partition in range(PARTITIONS)]
    third = EVENTS // 3
    with town(kafka, "fault-rebalance", tmp_path, partitions=PARTITIONS) as place:

        def produce(start: int, stop: int) -> None:
            for partition, some in enumerate(pairs):
                place.produce(partition, some[start:stop])

        produce(0, third)
        first, second = place.start(max_poll_records=50), place.start(max_poll_records=50)
        place.wait_for_log(0, "partitions assigned")
        place.wait_for_log(1, "partitions assigned")
        produce(third, 2 * third)
        place.wait_for_output(place.num_output() + 1)
        assert first.poll() is None
        assert second.poll() is None
        second.terminate()
        produce(2 * third, EVENTS)
        second.communicate(timeout=100)
        assert second.returncode == 0, place.logs()
        # Only now: who leaves on a busy machine would come to the end before it has left.
        for partition in range(PARTITIONS):
            place.end(partition, EVENTS)
        summary = place.summary(first)
        assert summary["ended"]
        assert summary["partitions"] == list(range(PARTITIONS))
        assert_exactly_once(place, pairs)
        assert committed(place) == PARTITIONS * [EVENTS], "those that went and came back are committed too"


@pytest.mark.timeout(900)
def test_a_worker_that_slept_through_its_replacement_rejoins_and_repeats_nothing(kafka: str, tmp_path: Path) -> None:
    pairs = [events(EVENTS, seed=30 + partition) for partition in range(PARTITIONS)]
    third = EVENTS // 3
    with town(kafka, "fault-asleep", tmp_path, partitions=PARTITIONS) as place:

        def produce(start: int, stop: int) -> None:
            for partition, some in enumerate(pairs):
                place.produce(partition, some[start:stop])

        # A transaction and a cut are always under way, so that the sleeper wakes up in the middle of one.
        first = place.start(max_poll_records=50, commit_every_ms=20, cut_every_ms=20)
        place.wait_for_log(0, "partitions assigned")
        produce(0, third)
        place.wait_for_output(1)
        first.send_signal(signal.SIGSTOP)
        second = place.start(max_poll_records=50)
        place.wait_for_log(1, "partitions assigned")
        produce(third, 2 * third)
        place.wait_for_output(place.num_output() + 10)
        first.send_signal(signal.SIGCONT)
        produce(2 * third, EVENTS)
        for partition in range(PARTITIONS):
            place.end(partition, EVENTS)
        ended = [place.summary(worker)["ended"] for worker in (first, second)]
        assert all(ended)
        assert_exactly_once(place, pairs)


@pytest.mark.timeout(900)
def test_two_workers_with_one_instance_do_not_fight_for_ever_and_repeat_nothing(kafka: str, tmp_path: Path) -> None:
    pairs = [events(EVENTS, seed=40 + partition) for partition in range(PARTITIONS)]
    with town(kafka, "fault-twins", tmp_path, partitions=PARTITIONS) as place:
        place.start(instance="one", max_poll_records=50)
        place.wait_for_log(0, "partitions assigned")
        place.start(instance="one", max_poll_records=50)
        for start in range(0, EVENTS, 10):
            for partition, some in enumerate(pairs):
                place.produce(partition, some[start : start + 10])
            if any(worker.poll() is not None for worker in place.workers):
                break
            place.clock.sleep(100)
        for partition, some in enumerate(pairs):
            place.produce(partition, some[start + 10 :])
            place.end(partition, len(some))
        for worker in place.workers:
            worker.communicate(timeout=100)
        codes = [worker.returncode for worker in place.workers]
        # The one that was fenced more leaves; where both were, both do.
        assert codes in ([0, 1], [1, 0], [1, 1]), place.logs()
        assert place.logs().count("FencedError: another process of group") == sum(codes), place.logs()
        assert "has worker.instance = one too" in place.logs()
        if 0 not in codes:
            assert place.summary(place.start(instance="one"))["ended"]
        assert_exactly_once(place, pairs)
