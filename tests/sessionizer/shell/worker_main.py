"""A sessionizer worker over the small world, as a process of its own that a test can kill.

Owns nothing: one JSON argument says where Kafka is, which topics, and the worker's configuration. The last line on
stdout is the summary.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import msgspec

from infra.clock import Clock
from infra.logging import configure
from sessionizer.config import JoinConfig
from sessionizer.job import Job, run
from sessionizer.worker_config import WorkerConfig
from streams.events.formats.config import FormatConfig
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig
from streams.metrics import Silent
from tests.sessionizer.shell.world import BATCHES, SCHEMA, SESSIONS


def main(settings: dict[str, object]) -> None:
    """Run until the end marks, or a signal."""
    configure("warning")

    def log(event: str, fields: Mapping[str, object]) -> None:
        sys.stderr.write(json.dumps({"event": event, **fields}) + "\n")

    job = Job(
        kafka=msgspec.convert(settings["kafka"], KafkaConfig),
        topics=msgspec.convert(settings["topics"], TopicsConfig),
        schema=SCHEMA,
        session=SESSIONS,
        join=JoinConfig(),
        batch=BATCHES,
        worker=msgspec.convert(settings["worker"], WorkerConfig),
        reporter=Silent(),
        now_ms=Clock().now_ms,
        log=log,
        format=msgspec.convert(settings["format"], FormatConfig),
    )
    summary = run(job, directory=Path(str(settings["directory"])), exit_at_end=bool(settings["exit_at_end"]))
    sys.stdout.write(json.dumps(asdict(summary) | {"account": msgspec.to_builtins(summary.account)}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
