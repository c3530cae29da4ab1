"""Events of long ago stay: a retention check that deletes what is old does not touch our topics."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from infra.clock import Clock, Deadline
from streams.kafka import client, topics
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig

pytestmark = pytest.mark.integration

YEAR_1998_MS = 883_612_800_000
CONTROLS = ("retention-control-1", "retention-control-2")


def first_offset(consumer: Consumer, topic: str) -> int:
    low, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)
    return int(low)


def test_old_timestamps_survive_a_retention_check_that_deletes_a_topic_with_the_usual_week(kafka: str) -> None:
    config = KafkaConfig(bootstrap=kafka)
    ours = TopicsConfig(interactions="retention-ours", minibatches="retention-ours-batches", partitions=1)
    admin = client.admin(config)
    topics.ensure(admin, ours)
    week = {"retention.ms": "604800000"}
    for future in admin.create_topics([NewTopic(name, num_partitions=1, config=week) for name in CONTROLS]).values():
        future.result(30)
    producer = client.producer(config, client_id="retention")
    # The controls are filled one after the other: when the second is empty, a check that began after ours was
    # written has gone through every topic.
    consumer = client.consumer(config, group="retention")
    clock = Clock()
    try:
        for n in range(10):
            producer.produce(ours.interactions, b"{}", b"u", 0, timestamp=YEAR_1998_MS + n)
        for control in CONTROLS:
            for n in range(10):
                producer.produce(control, b"{}", b"u", 0, timestamp=YEAR_1998_MS + n)
            assert producer.flush(30) == 0
            deadline = Deadline.after(clock, 50_000)
            while first_offset(consumer, control) < 10:
                assert not deadline.passed, f"the broker has not deleted the old records of {control}"
                clock.sleep(200)
        assert first_offset(consumer, ours.interactions) == 0
    finally:
        consumer.close()
