"""Whether Kafka answers at all, found out within seconds and told with the settings that may be wrong.

Owns the first contact of a command. Without it a wrong address or password shows only as a timeout, minutes
later, under a stream of librdkafka's own log lines.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from streams.errors import ConfigError, RetryableError
from streams.kafka.client import KafkaConfig, admin

_NOT_LET_IN: Final = frozenset({
    KafkaError._AUTHENTICATION,  # noqa: SLF001  (librdkafka's name for a refused log-in)
    KafkaError._SSL,  # noqa: SLF001  (librdkafka's own names)
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
})  # fmt: skip


def reach(config: KafkaConfig, timeout_ms: int = 10_000) -> None:
    """Return if a broker answers. Raises ConfigError if it does not let us in, RetryableError if there is none."""
    errors: list[KafkaError] = []
    # Refused connections are reported once, below, and not a hundred times by librdkafka.
    client = admin(config, {"error_cb": errors.append, "log_level": 0, "reconnect.backoff.ms": 500})
    try:
        client.list_topics(timeout=timeout_ms / 1000)
    except KafkaException as error:
        client.poll(0)
        told = "; ".join(dict.fromkeys(each.str() for each in errors)) or str(error.args[0].str())
        if any(each.code() in _NOT_LET_IN for each in errors):
            raise ConfigError(
                f"Kafka at {config.bootstrap} does not let us in: {told}. Check kafka.security_protocol "
                f"({config.security_protocol}), kafka.sasl_… and kafka.ssl_…"
            ) from error
        raise RetryableError(
            f"no Kafka answers at {config.bootstrap} within {timeout_ms} ms: {told}. Start it (`recd up`), or set "
            f"kafka.bootstrap; kafka.security_protocol is {config.security_protocol}"
        ) from error
