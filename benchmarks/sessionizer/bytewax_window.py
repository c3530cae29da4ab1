"""A program: bytewax's session window over the same topic, with the same gap.

    python -m benchmarks.sessionizer.bytewax_window '{"kafka", "topic", …}'

Needs bytewax (`uv sync --extra cpu --group bench`). It collects the events of each session and counts them: no joins,
no mini-batches, no recovery store.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import msgspec
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing as win
from bytewax.testing import TestingSink, cluster_main

from benchmarks.sessionizer.by_event import GAP_MS, LATENESS_MS, View

FETCH = 10_000


def main(settings: dict[str, Any]) -> None:
    """Read the topic to its end and say what came of it."""
    decode = msgspec.json.Decoder(View).decode
    sizes: list[int] = []
    flow = Dataflow("sessions")
    source = KafkaSource([settings["kafka"]], [settings["topic"]], tail=False, batch_size=FETCH)
    views = op.map("decode", op.input("read", flow, source), lambda message: decode(message.value))
    keyed = op.key_on("key", views, lambda view: str(view.user))
    clock = win.EventClock(
        lambda view: datetime.fromtimestamp(view.at / 1000, UTC), timedelta(milliseconds=LATENESS_MS)
    )
    windows = win.collect_window("sessions", keyed, clock, win.SessionWindower(timedelta(milliseconds=GAP_MS)))
    counted = op.map("count", windows.down, lambda closed: len(closed[1][1]))
    op.output("keep", counted, TestingSink(sizes))
    cluster_main(flow, [], 0)
    sys.stdout.write(json.dumps({"sessions": len(sizes), "events": sum(sizes)}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
