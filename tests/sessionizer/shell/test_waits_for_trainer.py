"""A real worker waits for a trainer's committed offsets, stays in its group, and loses nothing by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from infra.clock import Deadline
from streams.kafka import client
from tests.sessionizer.shell.town import Town, is_end, town
from tests.sessionizer.shell.world import events, identities, records, reference

BOUND = 20_000
GROUP = "recd-trainer"
STILL_MS = 6_000
"""Three times as long as the client may go without polling."""


def commit(place: Town, offset: int, partition: int = 0) -> None:
    """As the trainer does after a checkpoint."""
    consumer = client.consumer(place.kafka, group=GROUP)
    try:
        consumer.commit(offsets=[TopicPartition(place.topics.minibatches, partition, offset)], asynchronous=False)
    finally:
        consumer.close()


def sizes(place: Town) -> list[tuple[int, int]]:
    """Offset and bytes of each committed mini-batch."""
    found = place.read(place.topics.minibatches, 0)
    return [(message.offset() or 0, len(message.value() or b"")) for message in found if not is_end(message)]


def settled(place: Town) -> list[tuple[int, int]]:
    """The output as soon as nothing has come for half a second."""
    deadline, found = Deadline.after(place.clock, 60_000), list[tuple[int, int]]()
    while (now := sizes(place)) != found:
        assert not deadline.passed, place.logs()
        found = now
        place.clock.sleep(500)
    return found


def stands_still(place: Town, trained: int, *, for_ms: int) -> list[tuple[int, int]]:
    """The output once it has stopped near the bound; it stays there."""
    found = settled(place)
    waiting = [size for offset, size in found if offset >= trained]
    assert BOUND <= sum(waiting) < BOUND + 4 * max(waiting)
    place.clock.sleep(for_ms)
    assert sizes(place) == found
    return found


def num_members(place: Town) -> int:
    group = f"{place.topics.minibatches}-app"
    admin = client.admin(place.kafka)
    return len(admin.describe_consumer_groups([group])[group].result(timeout=10).members)


def test_output_waits_for_the_trainer_in_its_group_and_across_a_kill(kafka: str, tmp_path: Path) -> None:
    some = events(3_000, seed=21)
    small: dict[str, Any] = {
        "max_poll_records": 50,
        "max_queue_records": 100,
        "drain_ms": 500,
        "max_ahead_bytes": BOUND,
    }
    with town(kafka, "worker-ahead", tmp_path) as place:
        place.produce(0, some)
        place.end(0, len(some))
        first = place.start(max_poll_ms=STILL_MS // 3, **small)
        place.wait_for_log(0, "output waits for the trainer")
        found = stands_still(place, 0, for_ms=STILL_MS)
        assert num_members(place) == 1
        trained = found[len(found) // 2][0]
        commit(place, trained)
        place.wait_for_log(0, "output goes on")
        found = stands_still(place, trained, for_ms=1_000)
        assert num_members(place) == 1
        assert place.logs().count('"partitions assigned"') == 1
        first.kill()
        first.wait()
        second = place.start(**small)
        place.wait_for_log(1, "output waits for the trainer")
        assert settled(place) == found
        while second.poll() is None:
            commit(place, sizes(place)[-1][0] + 1)
            place.clock.sleep(200)
        assert place.summary(second)["ended"]
        expected, _ = reference(records(some))
        assert identities(place.batches(0)) == identities(expected)


def test_a_partition_that_waits_holds_up_no_other_one(kafka: str, tmp_path: Path) -> None:
    pairs = [events(1_500, seed=22 + partition) for partition in range(2)]
    with town(kafka, "worker-ahead-one", tmp_path, partitions=2) as place:
        for partition, some in enumerate(pairs):
            place.produce(partition, some)
            place.end(partition, len(some))
        place.start(max_poll_records=50, max_queue_records=100, max_ahead_bytes=BOUND)
        deadline = Deadline.after(place.clock, 60_000)
        while not place.ends(1):
            assert not deadline.passed, place.logs()
            if found := place.read(place.topics.minibatches, 1):
                commit(place, (found[-1].offset() or 0) + 1, 1)
            place.clock.sleep(200)
        expected, _ = reference(records(pairs[1], 1), 1)
        assert identities(place.batches(1)) == identities(expected)
        assert "output waits for the trainer" in place.logs()
        assert not place.ends(0)
