"""Mini-batches out of real Kafka: what enters, what is dropped, and what stops the trainer in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from streams import wire
from streams.errors import ConfigError, InvariantError, WireError
from streams.kafka import client, topics
from tests.deleted_topics import delete_topics
from tests.trainer.kafka_kit import MiniBatchTopic, audit, config, make_topic, train, write_log
from tests.trainer.lineage_kit import mini_batch, topic
from trainer.intake import GapError

LOG = topic(batches=12)
ALL = 2 * 12 * 6


@pytest.fixture
def minibatches(kafka: str, request: pytest.FixtureRequest) -> MiniBatchTopic:
    """An empty topic of the test's own."""
    return make_topic(kafka, request.node.name.replace("_", "-")[:80])


def committed(of: MiniBatchTopic) -> list[int]:
    """What the group shows to observers, by partition."""
    reader = client.consumer(of.kafka, group=of.name)
    try:
        found = reader.committed([TopicPartition(of.name, number) for number in range(2)], timeout=10)
    finally:
        reader.close()
    return [each.offset for each in found]


def test_everything_before_the_end_records_is_trained_once(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    write_log(minibatches, LOG)
    minibatches.end()
    summary = train(config(minibatches, tmp_path))
    assert (summary.exit_reason, summary.samples, summary.duplicates) == ("end", ALL, 0)
    assert audit(tmp_path, LOG).exact


def test_a_restart_goes_on_at_the_checkpoint_and_not_at_the_group(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    write_log(minibatches, LOG)
    minibatches.end()
    settings = config(minibatches, tmp_path)
    train(settings, max_steps=3)
    reader = client.consumer(minibatches.kafka, group=minibatches.name)
    reader.commit(offsets=[TopicPartition(minibatches.name, number, 9) for number in range(2)], asynchronous=False)
    reader.close()
    assert train(settings).lineage_samples == ALL
    assert audit(tmp_path, LOG).exact


def test_observers_see_no_lag_once_all_is_saved(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    write_log(minibatches, LOG)
    minibatches.end()
    train(config(minibatches, tmp_path))
    reader = client.consumer(minibatches.kafka, group=minibatches.name)
    ends = [reader.get_watermark_offsets(TopicPartition(minibatches.name, n), timeout=10)[1] for n in range(2)]
    reader.close()
    assert committed(minibatches) == ends


def test_a_finished_topic_is_finished_again_after_a_restart(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    write_log(minibatches, LOG)
    minibatches.end()
    settings = config(minibatches, tmp_path)
    train(settings)
    again = train(settings)
    assert (again.exit_reason, again.steps, again.checkpoints) == ("end", 0, 0)


def test_a_new_epoch_is_trained_on_top(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    settings = config(minibatches, tmp_path)
    minibatches.write(*(mini_batch(number, 0) for number in range(2)))
    minibatches.end(epoch=0)
    assert train(settings).lineage_samples == 12
    minibatches.write(mini_batch(0, 1))
    minibatches.end(epoch=1)
    assert train(settings, end_epoch=1).lineage_samples == 18


def test_a_mini_batch_that_comes_twice_is_dropped_and_counted(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    minibatches.write(*LOG[0][:4], *LOG[1][:4])
    minibatches.write(*LOG[0][2:4])
    minibatches.end()
    summary = train(config(minibatches, tmp_path))
    assert (summary.samples, summary.duplicates) == (8 * 6, 2)


def test_a_gap_in_the_sequence_stops_the_trainer(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    minibatches.write(*LOG[0][:3], *LOG[0][5:])
    with pytest.raises(GapError, match="sequence 3 was due, but 5 stands at offset 3; 2 mini-batches are missing"):
        train(config(minibatches, tmp_path))


def test_a_damaged_mini_batch_stops_the_trainer_and_names_its_place(
    minibatches: MiniBatchTopic, tmp_path: Path
) -> None:
    good = wire.encode(LOG[0][0])
    minibatches.write_raw((0, good), (0, good[:-9] + bytes(9)))
    with pytest.raises(WireError) as caught:
        train(config(minibatches, tmp_path))
    assert f"at {minibatches.name} partition 0 offset 1" in caught.value.__notes__


def test_a_mini_batch_of_another_schema_stops_the_trainer(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    minibatches.write(replace(LOG[0][0], fingerprint=5))
    with pytest.raises(WireError, match="built under schema 0000000000000005"):
        train(config(minibatches, tmp_path))


def test_an_offset_that_retention_removed_is_refused(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    settings = config(minibatches, tmp_path)
    write_log(minibatches, LOG)
    train(settings, max_steps=3)
    admin = minibatches.admin
    [gone] = admin.delete_records([TopicPartition(minibatches.name, 0, 8)]).values()
    gone.result(10)
    with pytest.raises(
        InvariantError, match=r"offset \d is due, but retention has removed everything before 8: \d records"
    ):
        train(settings)


def test_a_topic_that_was_made_anew_is_refused(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    settings = config(minibatches, tmp_path)
    write_log(minibatches, LOG)
    train(settings, max_steps=3)
    delete_topics(minibatches.admin, minibatches.name)
    topics.ensure(minibatches.admin, minibatches.names)
    with pytest.raises(InvariantError, match="was deleted and created again"):
        train(settings)


def test_a_topic_with_more_partitions_is_refused(minibatches: MiniBatchTopic, tmp_path: Path, kafka: str) -> None:
    settings = config(minibatches, tmp_path)
    write_log(minibatches, LOG)
    train(settings, max_steps=3)
    wider = make_topic(kafka, f"{minibatches.name}-wider", partitions=3)
    with pytest.raises(InvariantError, match="the checkpoint stands in topic"):
        train(replace(settings, topic=wider.name))


def test_a_topic_that_never_appears_is_named(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    settings = replace(config(minibatches, tmp_path), topic="nowhere")
    with pytest.raises(ConfigError, match="topic nowhere does not exist"):
        train(settings)


def test_a_partition_far_ahead_never_starves_the_recorded_order(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    settings = config(minibatches, tmp_path)
    settings = replace(settings, source=replace(settings.source, queue_batches=4, fetch_batches=2))
    write_log(minibatches, LOG)
    minibatches.end()
    train(settings, max_steps=2)
    assert train(settings).lineage_samples == ALL
