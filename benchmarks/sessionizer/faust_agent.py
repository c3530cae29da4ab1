"""A program: a Faust agent that takes the events one by one and sends mini-batches.

    python -m benchmarks.sessionizer.faust_agent '{"kafka", "topic", "partitions", "events", "directory"}'

Faust as its manual has it, but for what only costs: no leader topic, no tables, no web server. Each mini-batch
is acknowledged by the broker before the next event is taken. At least once: its exactly-once mode is not used.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import faust
from faust.worker import Worker

from benchmarks.sessionizer import setup
from benchmarks.sessionizer.by_event import ByEvent
from benchmarks.sessionizer.by_event_batches import Batches
from benchmarks.sessionizer.stream import Law


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
    schema = setup.configured(settings["kafka"], settings["topic"], Law()).schema
    sent: list[tuple[int, bytes]] = []
    batches = [Batches(schema, p, lambda *one: sent.append(one)) for p in range(settings["partitions"])]
    sessions = [ByEvent(one.add) for one in batches]
    target = app.topic(settings["topic"] + "-agent", value_type=bytes, value_serializer="raw")

    async def send() -> None:
        for partition, value in sent:
            await (await target.send(value=value, partition=partition))
        sent.clear()

    async def sessionize(stream: Any) -> None:  # noqa: ANN401  (Faust's streams have no types)
        left = settings["events"]
        async for event in stream.events():
            sessions[event.message.partition].take(event.value, event.message.offset)
            if sent:
                await send()
            left -= 1
            if not left:
                for one, its in zip(sessions, batches, strict=True):
                    one.finish()
                    its.flush()
                await send()
                told = {"samples": sum(s.samples for s in sessions), "clicked": sum(s.clicked for s in sessions)}
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
