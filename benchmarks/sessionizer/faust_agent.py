"""A program: a Faust agent that takes the events one by one into sessions in memory.

    python -m benchmarks.sessionizer.faust_agent '{"kafka", "topic", "partitions", "events", "directory"}'

Faust as its manual has it, but for what only costs: no leader topic, no tables, no web server.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from typing import Any

import faust
from faust.worker import Worker

from benchmarks.sessionizer.by_event import ByEvent


def main(settings: dict[str, Any]) -> None:
    """Work until so many events have been taken, then say what came of them."""
    app = faust.App(
        f"agent-{os.getpid()}",
        broker="kafka://" + settings["kafka"],
        datadir=settings["directory"],
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        broker_max_poll_records=10_000,
        consumer_auto_offset_reset="earliest",
        autodiscover=False,
    )
    source = app.topic(
        settings["topic"], key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
    )
    sessions: dict[int, ByEvent] = defaultdict(ByEvent)

    async def sessionize(stream: Any) -> None:  # noqa: ANN401  (Faust's streams have no types)
        left = settings["events"]
        async for event in stream.events():
            sessions[event.message.partition].take(event.value)
            left -= 1
            if not left:
                for one in sessions.values():
                    one.close_before(1 << 62)
                told = {"samples": sum(s.samples for s in sessions.values())}
                told["clicked"] = sum(s.clicked for s in sessions.values())
                sys.stdout.write(json.dumps(told) + "\n")
                sys.stdout.flush()
                # The time of a shutdown in order is not what is measured here.
                os._exit(0)

    app.agent(source, name="sessionize")(sessionize)
    worker = Worker(
        app, loglevel="error", quiet=True, stdout=sys.stderr, redirect_stdouts=False, override_logging=False
    )
    worker.spinner = None
    worker.execute_from_commandline()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
