"""How every process of recd reaches Kafka: one configuration, one security setting, four kinds of client.

Owns the address, the security and the settings that are promises: no silent topic creation, no automatic
commits or resets, one partitioner for all producers. Never creates topics and never reads or writes a record.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from streams.errors import ConfigError
from streams.strict import STRICT

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_LIBRDKAFKA: Final = logging.getLogger("librdkafka")
END_SOON: Final = {"fetch.wait.max.ms": 50}
"""Extra settings of one who reads up to the end and is settled there: the end is told after a fetch that found nothing,
which takes half a second otherwise. Not for who waits for what was committed a moment ago: what a transaction held can
be read only a little after its commit has returned."""
PARTITIONER: Final = "murmur2_random"
"""What Java and aiokafka do too. librdkafka's own default sends most users to another partition."""
MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""Largest message of any of our topics, unless configured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaConfig:
    """Where Kafka is and how to be let in. Shared by every client of every process."""

    __pydantic_config__: ClassVar = STRICT

    bootstrap: str = "127.0.0.1:9092"
    """Addresses of brokers to start from: host:port, several separated by commas."""
    security_protocol: SecurityProtocol = "PLAINTEXT"
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    sasl_mechanism: SaslMechanism = "PLAIN"
    """How the name and password are shown to the broker; only with SASL_PLAINTEXT or SASL_SSL."""
    sasl_username: str = ""
    """User name; only with SASL_PLAINTEXT or SASL_SSL."""
    sasl_password: str = field(default="", repr=False)
    """Password; better given by the environment than in a file."""
    ssl_ca_file: str | None = None
    """PEM file with the certificates to trust; without it the system's. Only with SSL or SASL_SSL."""
    ssl_cert_file: str | None = None
    """PEM file with our own certificate, where brokers ask for one."""
    ssl_key_file: str | None = None
    """PEM file with the key of our own certificate."""
    ssl_key_password: str = field(default="", repr=False)
    """Password of the key file, where it has one."""
    plain: bool = False
    """True: the broker knows no transactions and no idempotent producers. For the in-memory stand-in only."""

    def __post_init__(self) -> None:
        if not self.bootstrap.strip():
            raise ConfigError("kafka.bootstrap is empty; give at least one host:port")
        if self.uses_sasl and not (self.sasl_username and self.sasl_password):
            raise ConfigError(
                f"kafka.security_protocol is {self.security_protocol}; set kafka.sasl_username and kafka.sasl_password"
            )
        if not self.uses_sasl and (self.sasl_username or self.sasl_password):
            raise ConfigError("kafka.sasl_username is set but not used; set kafka.security_protocol to a SASL_ one")
        if (self.ssl_cert_file is None) != (self.ssl_key_file is None):
            raise ConfigError("kafka.ssl_cert_file and kafka.ssl_key_file belong together; set both or none")
        if not self.uses_ssl and (self.ssl_ca_file or self.ssl_cert_file):
            raise ConfigError("kafka.ssl_… files are set but not used; set kafka.security_protocol to SSL or SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether a name and password are shown to the broker."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_ssl(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol.endswith("SSL")

    def librdkafka(self) -> dict[str, Any]:
        """Address and security as confluent-kafka spells them."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.security_protocol,
            # Its own way is straight to stderr, past every format and level: forty lines a second without a broker.
            "logger": _LIBRDKAFKA,
            # A topic that was deleted stays deleted, whatever the broker would allow.
            "allow.auto.create.topics": False,
        }
        if self.uses_sasl:
            settings |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.username": self.sasl_username,
                "sasl.password": self.sasl_password,
            }
        if self.uses_ssl:
            files = {
                "ssl.ca.location": self.ssl_ca_file,
                "ssl.certificate.location": self.ssl_cert_file,
                "ssl.key.location": self.ssl_key_file,
                "ssl.key.password": self.ssl_key_password or None,
            }
            settings |= {name: value for name, value in files.items() if value is not None}
        return settings

    def aiokafka(self) -> dict[str, Any]:
        """Address and security as aiokafka spells them: keyword arguments of its clients."""
        settings: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.security_protocol,
        }
        if self.uses_sasl:
            settings |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.sasl_username,
                "sasl_plain_password": self.sasl_password,
            }
        if self.uses_ssl:
            settings["ssl_context"] = self._ssl_context()
        return settings

    def _ssl_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ssl_ca_file)
        if self.ssl_cert_file is not None:
            context.load_cert_chain(self.ssl_cert_file, self.ssl_key_file, self.ssl_key_password or None)
        return context


def producer(
    config: KafkaConfig,
    *,
    client_id: str,
    transactional_id: str | None = None,
    compression: Compression = "lz4",
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    extra: Mapping[str, object] | None = None,
) -> Producer:
    """A producer that keeps order, retries without duplicates and reports what it could not deliver.

    `compression` is "none" for records that are compressed already. `extra` are librdkafka settings; they win.
    The transactional id is refused where the broker is a plain one.
    """
    settings = config.librdkafka() | {
        "client.id": client_id,
        "partitioner": PARTITIONER,
        "acks": "all",
        "enable.idempotence": not config.plain,
        "compression.type": "none" if config.plain else compression,
        # Room for the record's key, headers and framing around a message of the full size.
        "message.max.bytes": max_message_bytes + 64 * 1024,
        "delivery.report.only.error": False,
    }
    if transactional_id is not None:
        if config.plain:
            raise ConfigError("kafka.plain is set: the in-memory stand-in has no transactions; use a real Kafka")
        settings["transactional.id"] = transactional_id
    return Producer(settings | dict(extra or {}))


def consumer(
    config: KafkaConfig,
    *,
    group: str,
    read_committed: bool = True,
    partition_eof: bool = False,
    extra: Mapping[str, object] | None = None,
) -> Consumer:
    """A consumer that never commits, never resets its position and never creates a topic by itself.

    An offset out of range is an error event, not a jump: positions are ours. `extra` wins.
    """
    settings = config.librdkafka() | {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": partition_eof,
        "isolation.level": "read_committed" if read_committed and not config.plain else "read_uncommitted",
    }
    return Consumer(settings | dict(extra or {}))


def admin(config: KafkaConfig, extra: Mapping[str, object] | None = None) -> AdminClient:
    """A client for topics, offsets and settings."""
    settings = config.librdkafka()
    # Not a setting of admin clients in librdkafka: they never create topics by asking.
    del settings["allow.auto.create.topics"]
    return AdminClient(settings | dict(extra or {}))
