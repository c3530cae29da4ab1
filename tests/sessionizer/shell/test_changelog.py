"""What is erased leaves a record without a value, and a changelog that has lost records is never taken for whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from infra.clock import Deadline
from sessionizer.changelog import KafkaChangelog, profile_key
from sessionizer.emit import PlainOutlet, open_outlet
from sessionizer.progress import Progress, chunk_key
from sessionizer.worker_config import WorkerConfig
from streams.errors import InvariantError
from streams.kafka import client
from tests.sessionizer.shell.town import Town, town


def opened(place: Town) -> PlainOutlet:
    return open_outlet(0, place.kafka, place.topics, WorkerConfig(app=place.topics.minibatches, cut_chunk_bytes=10))


def changelog(place: Town) -> KafkaChangelog:
    return KafkaChangelog(0, place.kafka, place.topics)


def delete_before(place: Town, offset: int) -> None:
    """As retention does where somebody has set the topic's policy to it."""
    admin, topic = client.admin(place.kafka), place.topics.profiles
    policy = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[policy])
    for done in admin.incremental_alter_configs([changed]).values():
        done.result(30)
    deadline = Deadline.after(place.clock, 30_000)
    while True:
        try:
            for deleted in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
                deleted.result(30)
        except KafkaException:
            # The broker that holds the partition may hear of the new policy a little later.
            assert not deadline.passed
            place.clock.sleep(50)
        else:
            return


def test_what_is_erased_has_a_record_without_a_value(kafka: str, tmp_path: Path) -> None:
    with town(kafka, "changelog-erased", tmp_path) as place:
        outlet = opened(place)
        outlet.send_profiles({7: b"seven", 8: b"eight"})
        outlet.send_cut(b"a cut of three chunks", 1, 0)
        outlet.commit(Progress())
        outlet.send_profiles({7: None})
        outlet.send_cut(b"a small one", 2, 3)
        outlet.commit(Progress())
        outlet.close()
        profiles = {message.key(): message.value() for message in place.read(place.topics.profiles, 0)}
        assert profiles == {profile_key(7): None, profile_key(8): b"eight"}
        chunks = {message.key(): message.value() for message in place.read(place.topics.cuts, 0)}
        assert chunks[chunk_key(0, 2)] is None, "neither an empty value nor a word for none"
        assert chunks[chunk_key(0, 1)] is not None


def test_a_changelog_is_read_to_its_end_though_nothing_that_can_be_read_is_there(kafka: str, tmp_path: Path) -> None:
    with town(kafka, "changelog-empty", tmp_path) as place:
        assert list(changelog(place).read(0, 0)) == []
        outlet = opened(place)
        assert outlet.send_profiles({}) is None
        after = outlet.send_profiles({7: b"seven"})
        assert after == 1
        outlet.commit(Progress())
        outlet.close()
        # The marker of the transaction is all that lies behind it.
        assert list(changelog(place).read(1, 2)) == []
        assert list(changelog(place).read(0, 2)) == [({7: b"seven"}, 1)]


def test_a_changelog_whose_beginning_was_deleted_is_refused(kafka: str, tmp_path: Path) -> None:
    with town(kafka, "changelog-deleted", tmp_path) as place:
        outlet = opened(place)
        after = outlet.send_profiles(dict.fromkeys(range(5), b"profile"))
        outlet.commit(Progress())
        outlet.close()
        delete_before(place, 3)
        with pytest.raises(InvariantError, match=r"profiles 0 to 3 of .* were deleted, so histories would lack"):
            list(changelog(place).read(0, after or 0))
        assert list(changelog(place).read(3, 5)) == [({3: b"profile", 4: b"profile"}, 5)]
