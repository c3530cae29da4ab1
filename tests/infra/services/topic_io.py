"""Records written to and read from a topic, for tests of the services themselves.

Owns: creating a topic, producing numbered records with old timestamps, and reading all of them back.
Never: how recd itself produces or consumes.
"""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from infra.clock import Clock, Deadline

OLD_MS = 874_724_710_000
"""September 1997: the first rating of MovieLens-100K."""
QUIET = {"log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}


def create_topic(bootstrap: str, topic: str, copies: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=copies)])[topic].result(timeout=30)


def produce(bootstrap: str, topic: str, numbers: range) -> list[int]:
    """Write the numbers; returns those that the brokers acknowledged, on all in-sync copies."""
    acknowledged: list[int] = []

    def delivered(error: object, message: Message) -> None:
        if error is None:
            acknowledged.append(int(message.value() or b"-1"))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 60_000, **QUIET})
    for number in numbers:
        producer.produce(topic, str(number).encode(), timestamp=OLD_MS + number, on_delivery=delivered)
        producer.poll(0)
    producer.flush(60)
    return acknowledged


def read_all(bootstrap: str, topic: str, count: int | None = None) -> list[tuple[int, int]]:
    """(number, timestamp in ms) of every record up to the log's end, or of the first `count`, in log order."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "read-all", **QUIET}
    consumer = Consumer(settings)
    try:
        partition = TopicPartition(topic, 0, OFFSET_BEGINNING)
        end = count or _end_of(consumer, partition)
        consumer.assign([partition])
        found: list[tuple[int, int]] = []
        while len(found) < end:
            message = consumer.poll(10)
            if message is None:
                raise TimeoutError(f"{len(found)} of {end} records came")
            if message.error() is None:
                found.append((int(message.value() or b"-1"), message.timestamp()[1]))
        return found
    finally:
        consumer.close()


def _end_of(consumer: Consumer, partition: TopicPartition) -> int:
    """The log's end. A broker that has just come back may answer before it leads its partitions again."""
    clock = Clock()
    deadline = Deadline.after(clock, 30_000)
    while True:
        try:
            return int(consumer.get_watermark_offsets(partition, timeout=30)[1])
        except KafkaException as error:
            # Not every answer that another try would mend says so of itself.
            leaderless = error.args[0].code() in {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
            if not (leaderless or error.args[0].retriable()) or deadline.passed:
                raise
            clock.sleep(100)
