"""What brokers and operators do to a running sessionizer: it waits, or stops in words, and never goes on with less.

Where it can go on, the result is that of an undisturbed run. `docs/faults.md` states the policy of each case.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions

from infra.clock import Deadline
from infra.services.stack import Stack
from tests.deleted_topics import delete_topics
from tests.fault.audit_round import EVENTS, PARTITIONS, Round, audit_round
from tests.fault.audit_worker import Worker

pytestmark = [pytest.mark.fault, pytest.mark.integration, pytest.mark.timeout(400)]


def set_topic(attack: Round, topic: str, name: str, value: str) -> None:
    """Change one setting of a topic, now."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for done in attack.admin.incremental_alter_configs([resource]).values():
        done.result(30)


def wait_for_log(attack: Round, words: str) -> None:
    deadline = Deadline.after(attack.place.clock, 100_000)
    while words not in attack.logs():
        assert not deadline.passed, attack.logs()
        attack.place.clock.sleep(50)


def stops_saying(attack: Round, worker: Worker, words: str) -> None:
    """The worker ends by itself, not well, and its log says why."""
    assert worker.wait(attack.place.clock, 100_000), attack.logs()
    assert worker.process.exitcode == 1, attack.logs()
    assert words in attack.logs()


@pytest.mark.audit
def test_a_broker_that_dies_and_comes_back_costs_time_only(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "services", tied=True)
    try:
        bootstrap = stack.up(brokers=1, kind="kafka").kafka
        with audit_round(bootstrap, "outside-broker", tmp_path, seed=31, portions=1) as attack:
            attack.produce()
            attack.start("w0")
            assert attack.wait_until_moving()
            assert stack.process("kafka-1").kill()
            attack.place.clock.sleep(500)
            assert stack.up().kafka == bootstrap
            attack.finish()
            assert attack.verdict().exact, attack.logs()
    finally:
        stack.down()


def test_without_its_dead_letter_topic_a_worker_waits_and_drops_no_letter(kafka: str, tmp_path: Path) -> None:
    with audit_round(kafka, "outside-letters", tmp_path, seed=33, portions=1) as attack:
        letters = attack.place.topics.dead_letter
        delete_topics(attack.admin, letters)
        attack.produce()
        attack.start("w0")
        wait_for_log(attack, f"{letters}[0] does not exist, so nothing is processed until it does")
        assert letters not in attack.admin.list_topics(timeout=10).topics, "nobody may make it but its owner"
        attack.place.build()
        attack.finish()
        assert attack.verdict().exact, attack.logs()


def test_a_mini_batch_that_the_broker_finds_too_large_stops_the_worker_with_the_remedy(
    kafka: str, tmp_path: Path
) -> None:
    # What cannot be written does not become writable while the worker leaves.
    with audit_round(kafka, "outside-too-large", tmp_path, seed=34, portions=1, drain_ms=3_000) as attack:
        topic = attack.place.topics.minibatches
        set_topic(attack, topic, "max.message.bytes", "1000")
        attack.produce()
        worker = attack.start("w0")
        stops_saying(attack, worker, "is too large for the broker")
        assert "give the topic max.message.bytes = topics.max_message_bytes" in attack.logs()
        set_topic(attack, topic, "max.message.bytes", str(attack.place.topics.max_message_bytes))
        attack.start("w0")
        attack.finish()
        assert attack.verdict().exact, attack.logs()


def test_offsets_that_the_group_has_forgotten_do_not_matter(kafka: str, tmp_path: Path) -> None:
    with audit_round(kafka, "outside-group", tmp_path, seed=35, portions=2) as attack:
        attack.produce()
        worker = attack.start("w0", static=False)
        attack.wait_until_moving()
        worker.send(signal.SIGTERM)
        assert worker.wait(attack.place.clock, 60_000)
        for done in attack.admin.delete_consumer_groups([attack.config.app]).values():
            done.result(30)
        attack.produce()
        worker = attack.start("w0", static=False)
        attack.wait_until_moving()
        worker.send(signal.SIGTERM)
        assert worker.wait(attack.place.clock, 60_000)
        # Or that somebody has set to where they never were.
        wrong = [TopicPartition(attack.place.topics.interactions, p, 1_000_000) for p in range(PARTITIONS)]
        request = ConsumerGroupTopicPartitions(attack.config.app, wrong)
        for done in attack.admin.alter_consumer_group_offsets([request]).values():
            done.result(30)
        attack.start("w0", static=False)
        attack.finish()
        assert attack.verdict().exact, attack.logs()


def stored(attack: Round) -> int:
    """Sum of the offsets that the group has for the interactions."""
    (told,) = attack.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(attack.config.app)]).values()
    return sum(max(0, place.offset) for place in told.result(30).topic_partitions or ())


def test_a_coordinator_that_can_store_no_offsets_does_not_harm_the_stream(kafka: str, tmp_path: Path) -> None:
    with audit_round(kafka, "outside-commits", tmp_path, seed=36, portions=2) as attack:
        attack.produce()
        attack.start("w0", static=False)
        wait_for_log(attack, "partitions assigned")
        assert attack.wait_until_moving()
        # Nothing is so small that the coordinator could write it down.
        set_topic(attack, "__consumer_offsets", "max.message.bytes", "10")
        try:
            attack.produce()
            wait_for_log(attack, "offsets were not committed; the next commit will")
            attack.finish()
        finally:
            set_topic(attack, "__consumer_offsets", "max.message.bytes", "1048588")
        assert attack.verdict().exact, attack.logs()
        assert stored(attack) < PARTITIONS * EVENTS, "the group cannot know"


def delete_unread(attack: Round) -> str:
    end = attack.produced
    places = [TopicPartition(attack.place.topics.interactions, p, end) for p in range(PARTITIONS)]
    for done in attack.admin.delete_records(places).values():
        done.result(30)
    return "expired before they were read"


def make_anew(attack: Round) -> str:
    delete_topics(attack.admin, attack.place.topics.interactions)
    attack.place.build()
    return "was deleted and made anew"


@pytest.mark.parametrize("lose", [delete_unread, make_anew])
def test_a_worker_whose_next_records_are_gone_stops_and_never_skips(
    kafka: str, tmp_path: Path, lose: Callable[[Round], str]
) -> None:
    with audit_round(kafka, f"outside-{lose.__name__}", tmp_path, seed=36, portions=2) as attack:
        attack.produce()
        worker = attack.start("w0")
        assert attack.wait_until_moving()
        worker.send(signal.SIGSTOP)
        attack.produce()
        words = lose(attack)
        worker.send(signal.SIGCONT)
        stops_saying(attack, worker, words)
        # Starting it again does not talk it into it.
        stops_saying(attack, attack.start("w0"), words)


def begin(attack: Round) -> None:
    """Emit something, and leave well."""
    attack.produce()
    worker = attack.start("w0")
    assert attack.wait_until_emitting()
    worker.send(signal.SIGTERM)
    assert worker.wait(attack.place.clock, 60_000)


def refilled_events(attack: Round) -> str:
    topic, done = attack.place.topics.interactions, attack.produced
    delete_topics(attack.admin, topic)
    attack.place.build()
    attack.produced = 0
    # As many records as before and more: offsets alone would not tell.
    attack.produce()
    attack.produce()
    assert attack.produced > done
    return f"topic {topic} was deleted and made anew"


def no_mini_batches(attack: Round) -> str:
    delete_topics(attack.admin, attack.place.topics.minibatches)
    attack.place.build()
    return f"topic {attack.place.topics.minibatches} was deleted and made anew"


def no_cuts(attack: Round) -> str:
    delete_topics(attack.admin, attack.place.topics.cuts)
    attack.place.build()
    return f"but {attack.place.topics.cuts} knows of none"


@pytest.mark.parametrize("lose", [refilled_events, no_mini_batches, no_cuts])
def test_a_topic_that_was_made_anew_between_two_runs_is_noticed(
    kafka: str, tmp_path: Path, lose: Callable[[Round], str]
) -> None:
    with audit_round(kafka, f"outside-anew-{lose.__name__}", tmp_path, seed=38, portions=3) as attack:
        begin(attack)
        words = lose(attack)
        stops_saying(attack, attack.start("w0"), words)


def test_partitions_that_are_added_while_a_worker_runs_stop_it_with_what_to_do(kafka: str, tmp_path: Path) -> None:
    with audit_round(kafka, "outside-growth", tmp_path, seed=37, portions=1) as attack:
        attack.produce()
        worker = attack.start("w0")
        assert attack.wait_until_moving()
        grown = NewPartitions(attack.place.topics.interactions, PARTITIONS + 2)
        for done in attack.admin.create_partitions([grown]).values():
            done.result(30)
        stops_saying(attack, worker, f"has {PARTITIONS + 2} partitions or more, but topics.partitions is {PARTITIONS}")
        stops_saying(attack, attack.start("w0"), "users have moved between partitions")
