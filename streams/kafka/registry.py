"""The schema registry, as formats ask for schemas.

Owns the client, and what each of its failures means: only "there is no such schema", said by the registry itself, is
about a record. A registry that is away is waited for, one that refuses us stops the worker; neither makes a record a
dead letter.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from streams.errors import ConfigError, RetryableError
from streams.events.formats.config import FormatConfig
from streams.events.formats.schemas import Part, Registered

_NO_SUCH_SCHEMA: Final = 40403
"""The registry's own code. A plain 404 may come from anything that answers at a wrong address."""
_LATER: Final = frozenset({408, 425, 429})
_RETRIES: Final = 1
_PAUSE_MS: Final = 100
"""Within one question; what fails then is asked again after `worker.retry_ms`."""


class Registry:
    """A registry's schemas. Answers are kept: a schema under an id never changes."""

    def __init__(self, config: FormatConfig) -> None:
        """Connects when it is asked for the first time."""
        settings: dict[str, Any] = {
            "url": config.registry,
            "timeout": config.registry_timeout_ms / 1000,
            "max.retries": _RETRIES,
            "retries.wait.ms": _PAUSE_MS,
            "retries.max.wait.ms": _PAUSE_MS,
        }
        if config.registry_user:
            settings["basic.auth.user.info"] = f"{config.registry_user}:{config.registry_password}"
        if config.registry_ca_file is not None:
            settings["ssl.ca.location"] = config.registry_ca_file
        self._url = config.registry
        # Protobuf schemas come as descriptors, so that nobody has to parse their text.
        self._format = "serialized" if config.name == "protobuf" else None
        self._client = SchemaRegistryClient(settings)

    def get(self, schema_id: int) -> Registered | None:
        try:
            schema = self._client.get_schema(schema_id, fmt=self._format)
            parts: dict[str, Part] = {}
            self._collect(schema, parts)
        except SchemaRegistryError as error:
            if error.http_status_code == 404 and error.error_code == _NO_SUCH_SCHEMA:
                return None
            raise self._failure(error) from error
        except Exception as error:
            # Whatever a client makes of a bad network or a half answer, it says nothing of the record.
            raise RetryableError(f"the schema registry at {self._url} does not answer: {error}") from error
        return Registered(kind=schema.schema_type or "AVRO", text=schema.schema_str or "", parts=list(parts.values()))

    def _collect(self, schema: Schema, parts: dict[str, Part]) -> None:
        """What the schema refers to, each after what it refers to itself."""
        for reference in schema.references or ():
            name, subject, version = reference.name, reference.subject, reference.version
            if name is None or subject is None or version is None:
                raise ValueError(f"{reference} refers to nothing")
            if name in parts:
                continue
            found = self._client.get_version(subject, version, fmt=self._format).schema
            self._collect(found, parts)
            parts[name] = Part(name=name, text=found.schema_str or "")

    def _failure(self, error: SchemaRegistryError) -> RetryableError | ConfigError:
        status = error.http_status_code
        if status >= 500 or status in _LATER:
            return RetryableError(f"the schema registry at {self._url} has a problem: {error}")
        if status in {401, 403}:
            return ConfigError(
                f"the schema registry at {self._url} refuses us: {error}; check format.registry_user and "
                "format.registry_password"
            )
        return ConfigError(f"what answers at {self._url} is no schema registry: {error}; check format.registry")
