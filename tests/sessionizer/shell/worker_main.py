"""A sessionizer worker over the small world, as a process of its own that a test can kill.

Owns nothing: one JSON argument says where Kafka is, which topics, and the worker's configuration. The last line on
stdout is the summary.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import msgspec

from infra.clock import Clock
from infra.logging import configure
from sessionizer import faust_seam
from sessionizer.config import BatchConfig, JoinConfig, ProfilesConfig
from sessionizer.job import run
from sessionizer.wiring import Job
from sessionizer.worker_config import WorkerConfig
from state.redis import RedisConfig
from state.redis_profiles import RedisProfiles
from state.store import Missing
from streams.events.formats.config import FormatConfig
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig
from streams.metrics import Silent
from tests.sessionizer.shell.world import SCHEMA, SESSIONS


class DyingProfiles(RedisProfiles):
    """A store whose process is killed at its n-th change: right after a commit of Kafka, before Redis hears of it."""

    def __init__(self, config: RedisConfig, left: int) -> None:
        super().__init__(config)
        self._left = left

    def write(self, shelf: str, values: Mapping[int, bytes | None], expected: bytes | Missing, tag: bytes) -> bool:
        if values:
            self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(shelf, values, expected, tag)


def profile_store(settings: dict[str, object]) -> RedisProfiles | None:
    """Where the test says that profiles are kept."""
    if not settings["redis"]:
        return None
    config = RedisConfig(url=str(settings["redis"]), timeout_ms=500)
    dies_at = settings["dies_at"]
    return DyingProfiles(config, int(str(dies_at))) if dies_at else RedisProfiles(config)


def main(settings: dict[str, object]) -> None:
    """Run until the end marks, or a signal."""
    configure("warning")
    if settings["max_poll_ms"]:
        faust_seam.MAX_POLL_MS = int(str(settings["max_poll_ms"]))

    def log(event: str, fields: Mapping[str, object]) -> None:
        sys.stderr.write(json.dumps({"event": event, **fields}) + "\n")

    job = Job(
        kafka=msgspec.convert(settings["kafka"], KafkaConfig),
        topics=msgspec.convert(settings["topics"], TopicsConfig),
        schema=SCHEMA,
        session=SESSIONS,
        join=JoinConfig(),
        batch=msgspec.convert(settings["batch"], BatchConfig),
        worker=msgspec.convert(settings["worker"], WorkerConfig),
        reporter=Silent(),
        now_ms=Clock().now_ms,
        log=log,
        format=msgspec.convert(settings["format"], FormatConfig),
        profiles=ProfilesConfig(store="redis" if settings["redis"] else "cuts", max_users_in_memory=1),
        profile_store=profile_store(settings),
    )
    summary = run(job, directory=Path(str(settings["directory"])), exit_at_end=bool(settings["exit_at_end"]))
    sys.stdout.write(json.dumps(asdict(summary) | {"account": msgspec.to_builtins(summary.account)}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
