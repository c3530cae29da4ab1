"""The command `recd sessionizer` before there is anything to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis

from infra import cli
from tests.infra.test_ingest import arguments

pytestmark = pytest.mark.integration


def test_it_does_not_begin_where_redis_may_throw_profiles_away(
    kafka: str, redis: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["profiles.store=redis", f"redis.url={redis}", "topics.minibatches=cli-sessionizer-out"]
    options = [*arguments(kafka, tmp_path), *(word for each in settings for word in ("--set", each))]
    admin = Redis.from_url(redis)
    admin.config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert cli.run(["sessionizer", "--exit-at-end", *options]) == 2
    finally:
        admin.config_set("maxmemory-policy", "noeviction")
    told = capsys.readouterr().err
    assert "evicts keys when it is full (allkeys-lru); set maxmemory-policy to noeviction" in told
