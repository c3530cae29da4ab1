"""Topics are made as the promises need them, and refused where they are not."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from infra.clock import Clock, Deadline
from streams.errors import ConfigError
from streams.kafka import client, topics
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig
from tests.deleted_topics import delete_topics


def test_names_derive_from_two() -> None:
    config = TopicsConfig(interactions="a", minibatches="b")
    assert config.names == ("a", "b", "a-dead-letter", "a-clock", "b-cuts", "b-profiles")


def test_two_topics_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="same name"):
        TopicsConfig(interactions="a", minibatches="a")


def test_a_topic_made_by_us_is_as_we_want_it() -> None:
    config = TopicsConfig()
    for name in config.names:
        assert topics.wrong_settings(config, name, config.settings(name)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.type", "LogAppendTime"),
        ("message.timestamp.after.max.ms", "3600000"),
    ],
)
def test_a_wrong_setting_is_told_with_the_command_that_mends_it(name: str, value: str) -> None:
    config = TopicsConfig()
    (told,) = topics.wrong_settings(config, "interactions", config.settings("interactions") | {name: value})
    assert f"{name}={value}" in told
    assert f"--entity-name interactions --add-config {name}={config.settings('interactions')[name]}" in told


def test_a_retention_that_was_asked_for_is_no_mistake() -> None:
    config = TopicsConfig(retention_ms=1000)
    settings = config.settings("interactions")
    assert topics.wrong_settings(config, "interactions", settings | {"retention.ms": "2000"}) == []
    assert topics.wrong_settings(config, "interactions", settings | {"retention.ms": "999"}) != []


def test_the_profiles_topic_must_not_forget_that_a_user_was_erased() -> None:
    config = TopicsConfig()
    assert topics.wrong_settings(config, config.profiles, config.settings(config.profiles)) == []
    day = config.settings(config.profiles) | {"delete.retention.ms": "86400000"}
    (told,) = topics.wrong_settings(config, config.profiles, day)
    assert "delete.retention.ms=86400000: erased users would come back from an old copy" in told


@pytest.fixture
def admin(kafka: str) -> AdminClient:
    return client.admin(KafkaConfig(bootstrap=kafka))


@pytest.mark.integration
def test_topics_are_made_once_and_found_again(admin: AdminClient) -> None:
    config = TopicsConfig(interactions="topics-once", minibatches="topics-once-out", partitions=3)
    topics.ensure(admin, config)
    topics.ensure(admin, config)
    found = admin.list_topics(timeout=10).topics
    assert [len(found[name].partitions) for name in config.names] == [3] * 6


@pytest.mark.integration
def test_what_was_deleted_is_made_anew(admin: AdminClient) -> None:
    config = TopicsConfig(interactions="topics-anew", minibatches="topics-anew-out", partitions=1)
    topics.ensure(admin, config)
    delete_topics(admin, config.minibatches, config.cuts)
    topics.ensure(admin, config)
    assert admin.list_topics(timeout=10).topics.keys() >= set(config.names)


@pytest.mark.integration
def test_another_number_of_partitions_is_refused(admin: AdminClient) -> None:
    topics.ensure(admin, TopicsConfig(interactions="topics-count", minibatches="topics-count-out", partitions=2))
    wrong = TopicsConfig(interactions="topics-count", minibatches="topics-count-out", partitions=4)
    with pytest.raises(ConfigError, match=r"has 2 partitions but topics\.partitions is 4.*recd route topics-count"):
        topics.ensure(admin, wrong)


@pytest.mark.integration
def test_topics_that_were_made_for_fewer_partitions_are_to_be_named_anew_and_never_routed(admin: AdminClient) -> None:
    topics.ensure(admin, TopicsConfig(interactions="topics-grew", minibatches="topics-grew-out", partitions=2))
    admin.create_partitions([NewPartitions("topics-grew", 3)])["topics-grew"].result(10)
    wrong = TopicsConfig(interactions="topics-grew", minibatches="topics-grew-out", partitions=3)
    deadline, told = Deadline.after(Clock(), 10_000), ""
    while "topics-grew-" not in told and not deadline.passed:  # The new count is seen a little later.
        with pytest.raises(ConfigError) as refused:
            topics.ensure(admin, wrong)
        told = str(refused.value)
    assert "made for an input of 2" in told
    assert "name a new topics." in told
    assert "recd route" not in told


@pytest.mark.integration
def test_a_topic_that_expires_is_refused(admin: AdminClient) -> None:
    made = admin.create_topics([NewTopic("topics-expire", num_partitions=1, config={"retention.ms": "60000"})])
    made["topics-expire"].result(10)
    config = TopicsConfig(interactions="topics-expire", minibatches="topics-expire-out", partitions=1)
    with pytest.raises(ConfigError, match=r"retention\.ms=60000.*expire"):
        topics.ensure(admin, config)


@pytest.mark.integration
def test_more_copies_than_brokers_are_refused_by_name(admin: AdminClient) -> None:
    config = TopicsConfig(interactions="topics-copies", minibatches="topics-copies-out", replication=3)
    with pytest.raises(ConfigError, match=r"topics\.replication = 3"):
        topics.ensure(admin, config)
