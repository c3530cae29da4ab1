"""Store: bytes under keys, many at a time, and compare-and-set by version.

Owns the protocol, what absence is, and the bytes of a versioned value. Never talks to a server. All stores pass one
suite (`tests/state/test_store_contract.py`).

A versioned value is u8 format (1), u64 version big-endian, then the blob.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, Protocol

from streams.errors import InvariantError


class Absence(Enum):
    """Says that a key has no value. None never means that."""

    MISSING = "missing"


MISSING: Final = Absence.MISSING
Missing = Literal[Absence.MISSING]

MAX_VALUE_BYTES: Final = 16 * 2**20
"""Larger values are refused: one of them would stall everybody else who uses the server."""

_FORMAT: Final = 1
_HEAD: Final = struct.Struct(">BQ")


class Store(Protocol):
    """Where processes leave bytes. Every call is one or a few commands, whatever the number of keys.

    `ttl_ms` None keeps a value for ever. A server that does not answer raises RetryableError; after that a write may
    or may not have happened, so writes are made to be repeatable.
    """

    def get_many(self, keys: Sequence[str]) -> list[bytes | Missing]:
        """The value of each key, in the order of the keys."""

    def put_many(self, values: Mapping[str, bytes], ttl_ms: int | None) -> None:
        """Set every key. A value and its time to live are set in one act."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove every key; keys that are absent stay so."""

    def compare_and_set(self, key: str, expected: int | Missing, new: Versioned, ttl_ms: int | None) -> bool:
        """Set the key to `new` if its version is `expected`, in one act. False, and no change, if it is not."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A value that is replaced only by those who have seen it."""

    version: int
    blob: bytes

    def encode(self) -> bytes:
        """As it is stored."""
        if not 0 <= self.version < 2**64:
            raise ValueError(f"version {self.version} does not fit into 64 bits")
        return _HEAD.pack(_FORMAT, self.version) + self.blob

    @staticmethod
    def decode(data: bytes) -> Versioned:
        """Raise InvariantError for a value that was not stored by `compare_and_set`."""
        if len(data) < _HEAD.size or data[0] != _FORMAT:
            raise InvariantError(f"a stored value begins with {data[:1]!r}, which is no versioned value; who wrote it?")
        return Versioned(_HEAD.unpack_from(data)[1], data[_HEAD.size :])


def version_bytes(version: int) -> bytes:
    """What a stored value of this version begins with."""
    return _HEAD.pack(_FORMAT, version)


def check_values(values: Mapping[str, bytes], ttl_ms: int | None) -> None:
    """Raise ValueError for what no store takes."""
    for key, value in values.items():
        if len(value) > MAX_VALUE_BYTES:
            raise ValueError(f"{key}: a value of {len(value)} bytes is above {MAX_VALUE_BYTES}; store it in pieces")
    if ttl_ms is not None and ttl_ms <= 0:
        raise ValueError(f"a time to live of {ttl_ms} ms is none; delete the keys instead")
