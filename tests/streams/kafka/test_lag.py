"""Three lags, by their definitions and on real Kafka."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewTopic

from streams.errors import RetryableError
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.kafka.lag import Held, PartitionLag, Reading, Unread, lag_of, read_lag
from streams.kafka.offsets import Bounds
from streams.kafka.reach import reach

NOW_MS = 1_000_000


def lag(
    start: int, end: int, committed: int | None, unread: Unread | None = None, next_offset: int | None = None
) -> PartitionLag:
    held = Held(smallest_offset=40, age_ms=700)
    reading = Reading(
        partition=0, bounds=Bounds(start, end), committed=committed, next_offset=next_offset, unread=unread, held=held
    )
    return lag_of(reading, NOW_MS)


def test_the_three_lags_differ() -> None:
    found = lag(0, 100, 30, Unread(offset=60, appended_ms=NOW_MS - 2500), next_offset=60)
    assert (found.fetch_events, found.fetch_ms) == (40, 2500)
    assert (found.held_events, found.held_age_ms) == (20, 700)
    assert (found.commit_events, found.has_committed) == (70, True)


def test_nothing_unread_is_no_lag_even_if_offsets_differ() -> None:
    # One record and the marker of its transaction: offset 2 is the end, 1 is all that can be committed.
    found = lag(0, 2, 1)
    assert (found.fetch_events, found.fetch_ms, found.commit_events) == (0, 0, 0)


def test_without_a_commit_nothing_is_said() -> None:
    found = lag(0, 1_000_000, None)
    assert (found.fetch_events, found.fetch_ms, found.commit_events, found.has_committed) == (None, None, None, False)


def test_records_that_have_expired_do_not_wait() -> None:
    assert lag(500, 500, 100).fetch_events == 0
    found = lag(500, 900, 100, Unread(offset=500, appended_ms=-1))
    assert (found.fetch_events, found.fetch_ms) == (400, None)
    assert found.problem is not None
    assert "expired" in found.problem


def test_a_position_behind_the_end_is_a_problem_and_not_a_negative_lag() -> None:
    found = lag(0, 50, 900)
    assert found.fetch_events == 0
    assert found.problem is not None
    assert "made anew" in found.problem


def test_a_clock_that_runs_ahead_gives_no_negative_age() -> None:
    assert lag(0, 10, 5, Unread(offset=5, appended_ms=NOW_MS + 100)).fetch_ms == 0


@pytest.mark.integration
def test_markers_do_not_count_and_an_open_transaction_hides_its_records(kafka: str) -> None:
    config = KafkaConfig(bootstrap=kafka)
    admin = client.admin(config)
    admin.create_topics([NewTopic("lag-markers", num_partitions=2)])["lag-markers"].result(10)
    producer = client.producer(config, client_id="t", transactional_id="lag-markers")
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("lag-markers", b"x", partition=0, headers={"recd-appended-ms": str(NOW_MS - 10).encode()})
    producer.commit_transaction(30)
    assert [each.committed for each in read_lag(config, "lag-markers", "lag-group")] == [None, None]

    reader = client.consumer(config, group="lag-group")
    reader.commit(
        offsets=[TopicPartition("lag-markers", 0, 0), TopicPartition("lag-markers", 1, 0)], asynchronous=False
    )
    first, second = (lag_of(each, NOW_MS) for each in read_lag(config, "lag-markers", "lag-group"))
    assert (first.fetch_ms, second.fetch_events, second.fetch_ms) == (10, 0, 0)
    reader.commit(offsets=[TopicPartition("lag-markers", 0, 1)], asynchronous=False)
    producer.begin_transaction()
    producer.produce("lag-markers", b"y", partition=0)
    producer.flush(10)
    first, _ = (lag_of(each, NOW_MS) for each in read_lag(config, "lag-markers", "lag-group"))
    reader.close()
    producer.abort_transaction(30)
    assert (first.fetch_events, first.fetch_ms, first.commit_events) == (0, 0, 0)


@pytest.mark.integration
def test_a_topic_that_does_not_exist_has_no_lag_and_is_not_made(kafka: str) -> None:
    config = KafkaConfig(bootstrap=kafka)
    assert read_lag(config, "lag-nowhere", "lag-group") == []
    assert "lag-nowhere" not in client.admin(config).list_topics(timeout=10).topics


def test_a_broker_that_is_not_there_is_named_within_seconds() -> None:
    with pytest.raises(RetryableError, match=r"127\.0\.0\.1:1 .*recd up"):
        reach(KafkaConfig(bootstrap="127.0.0.1:1"), timeout_ms=500)
