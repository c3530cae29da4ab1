"""A worker that cannot even begin leaves, and says why."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import TopicPartition

from streams.kafka import client
from tests.sessionizer.shell.town import town
from tests.sessionizer.shell.world import events


def test_a_worker_that_the_group_refuses_leaves_in_words(kafka: str, tmp_path: Path) -> None:
    with town(kafka, "worker-refused", tmp_path) as place:
        worker = place.start(session_timeout_ms=1_000)
        worker.communicate(timeout=100)
        assert worker.returncode == 1
        assert "Kafka refuses this worker as a member of group worker-refused-batches-app" in place.logs()


def test_a_worker_whose_very_first_mark_has_expired_unseen_leaves_in_words(kafka: str, tmp_path: Path) -> None:
    some = events(50, seed=3)
    with town(kafka, "worker-mark-expired", tmp_path) as place:
        place.produce(0, some)
        first = place.start()
        while not place.read(place.topics.cuts, 0):
            assert first.poll() is None, place.logs()
            place.clock.sleep(100)
        first.kill()
        first.wait()
        place.end(0, len(some))
        until = TopicPartition(place.topics.clock, 0, 1)
        admin = client.admin(place.kafka)  # Must outlive its futures.
        for deleted in admin.delete_records([until]).values():
            deleted.result(30)
        second = place.start()
        second.communicate(timeout=100)
        assert second.returncode == 1
        assert "clock marks 0 to 1 of partition 0 have expired" in place.logs()
