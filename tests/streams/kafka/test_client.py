"""One security setting for every client, and no secret in sight."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from streams.errors import ConfigError, RecdError
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.kafka.reach import reach

PACKAGES = ("streams", "state", "sessionizer", "trainer", "infra")
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


def makers() -> set[str]:
    """Files of the packages that make a client of Kafka."""
    kinds = {"Consumer", "Producer", "AdminClient", "AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient"}
    root = Path(__file__).resolve().parents[3]
    found = set()
    for path in (each for package in PACKAGES for each in (root / package).rglob("*.py")):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if kinds & {ast.unparse(called).rpartition(".")[2] for called in calls}:
            found.add(str(path.relative_to(root)))
    return found


def test_nobody_makes_a_client_that_the_security_setting_does_not_reach() -> None:
    own_broker = "infra/services/kafka.py"
    assert makers() - {own_broker} == {"streams/kafka/client.py", "sessionizer/faust_seam.py"}


@pytest.mark.integration
@pytest.mark.parametrize(
    "settings",
    [
        {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "u", "sasl_password": "swordfish"},
        {"security_protocol": "SSL"},
    ],
    ids=["SASL_PLAINTEXT", "SSL"],
)
def test_a_security_setting_that_is_not_the_broker_s_is_named_within_seconds(
    kafka: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(RecdError, match=rf"kafka\.security_protocol.*{settings['security_protocol']}") as told:
        reach(KafkaConfig(bootstrap=kafka, **settings), timeout_ms=2_000)
    assert "swordfish" not in str(told.value)
