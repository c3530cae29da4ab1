"""stack.json: whole or absent, and refused in words when it is something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.services import record
from infra.services.errors import StackMismatchError

BROKERS = (record.BrokerRecord(1, 20_001, 20_002),)
KNOWN = record.StackRecord(
    kind="kafka", cluster_id="a" * 22, brokers=BROKERS, redis_port=20_003, redis_program="/usr/bin/redis-server"
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "stack.json"
    assert record.load(path) is None
    record.save(path, KNOWN)
    assert record.load(path) == KNOWN
    assert KNOWN.ports() == {20_001, 20_002, 20_003}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2}', b'{"kind": "redpanda"}'])
def test_anything_else_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "stack.json"
    path.write_bytes(content)
    with pytest.raises(StackMismatchError, match="choose another --dir or delete"):
        record.load(path)


def test_cluster_ids_are_what_kafka_accepts_and_differ() -> None:
    ids = {record.new_cluster_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(len(one) == 22 and not one.startswith("-") for one in ids)
