"""One security setting for every client, and no secret in sight."""

from __future__ import annotations

from typing import Any

import pytest

from streams.errors import ConfigError
from streams.kafka import client
from streams.kafka.client import KafkaConfig

WORD = "top"
SASL = KafkaConfig(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_username="u", sasl_password=WORD)


def test_a_password_is_never_shown() -> None:
    assert "top" not in repr(SASL)
    assert "top" not in str(SASL)


def test_both_clients_get_the_same_security() -> None:
    ours, theirs = SASL.librdkafka(), SASL.aiokafka()
    assert ours["sasl.username"] == theirs["sasl_plain_username"] == "u"
    assert ours["sasl.password"] == theirs["sasl_plain_password"] == "top"
    assert ours["security.protocol"] == theirs["security_protocol"] == "SASL_SSL"
    assert theirs["ssl_context"] is not None


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"bootstrap": " "}, "kafka.bootstrap"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "kafka.sasl_username"),
        ({"sasl_username": "u"}, "kafka.security_protocol"),
        ({"security_protocol": "SSL", "ssl_cert_file": "c"}, "kafka.ssl_key_file"),
        ({"ssl_ca_file": "c"}, "kafka.security_protocol"),
    ],
)
def test_a_security_setting_that_would_be_ignored_is_refused_by_name(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        KafkaConfig(**settings)


def test_the_stand_in_is_never_asked_for_a_transaction() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.plain"):
        client.producer(KafkaConfig(plain=True), client_id="x", transactional_id="t")
