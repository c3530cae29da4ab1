"""What one directory of local services remembers: `stack.json`.

Owns: its shape, and reading and writing it whole.
Never: says what runs; the pid files do.
"""

from __future__ import annotations

import base64
import os
import uuid
from pathlib import Path
from typing import Literal

import msgspec

from infra.services.errors import StackMismatchError

Kind = Literal["kafka", "memory"]


class BrokerRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ports of one broker."""

    node_id: int
    client_port: int
    controller_port: int


class StackRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that has to be the same when the services start again."""

    version: Literal[1] = 1
    kind: Kind
    cluster_id: str
    brokers: tuple[BrokerRecord, ...]
    redis_port: int
    redis_program: str

    def ports(self) -> frozenset[int]:
        """Every port of this directory."""
        brokers = (port for broker in self.brokers for port in (broker.client_port, broker.controller_port))
        return frozenset([self.redis_port, *brokers])


def new_cluster_id() -> str:
    """A Kafka cluster id: 16 bytes as 22 characters. A leading dash would read as a flag."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def load(path: Path) -> StackRecord | None:
    """The record at `path`, None if there is none yet."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=StackRecord)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise StackMismatchError(
            f"{path} is not a record of local services: {error}",
            remedy=f"another version of recd wrote it, or something else did; choose another --dir or delete {path}",
        ) from error


def save(path: Path, record: StackRecord) -> None:
    """Write it so that a crash leaves the old one or the new one."""
    fresh = path.with_suffix(".json.new")
    with fresh.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record)))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
