"""The seam to Faust alone, as a process of its own, with a handler that changes its mind during every fetch, or breaks.

Owns nothing: one JSON argument says where Kafka is, which topic, how many records it holds and what the handler does.
The last line on stdout has the offsets that were handed over, and how many of them before the handler moved.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from aiokafka.consumer import fetcher

from infra.clock import Clock, Deadline
from infra.logging import configure
from sessionizer.faust_seam import build_app, run_worker
from sessionizer.handler import Lane
from sessionizer.worker_config import WorkerConfig
from streams.events.record import Records
from streams.inputs import Input
from streams.kafka.client import KafkaConfig

LANE: Lane = (Input.INTERACTIONS, 0)
AGAIN = 5
"""Where one that moves reads on."""
_MOVES_AT = 4
"""Positions are asked for before each fetch and after it: this is after the second one."""


def break_fetch(_: bytes) -> NoReturn:
    """Takes fetched bytes in the client's own loop, in place of what makes records of them."""
    raise RuntimeError("this fetch is broken")


@dataclass
class Fickle:
    """Wants records when asked before a fetch and none when asked again; may go back during one, or break."""

    total: int
    moves: bool
    breaks: bool
    deadline: Deadline
    taken: list[int] = field(default_factory=list)
    before_move: int = -1
    next_offset: int = 0
    failure: str = ""
    _ours: bool = False
    _asked: int = 0
    _asked_where: int = 0

    def assigned(self, partitions: set[int]) -> None:
        self._ours = 0 in partitions

    def torn(self, partitions: set[int]) -> None:
        self.failure = f"torn {partitions}"

    async def revoked(self) -> None:
        self._ours = False

    def starts(self) -> dict[Lane, int]:
        if not self._ours:
            return {}
        self._asked_where += 1
        if self.moves and self._asked_where == _MOVES_AT:
            self.before_move = len(self.taken)
            return {LANE: AGAIN}
        return {LANE: 0} if self._asked_where == 1 else {}

    def wants(self) -> set[Lane]:
        self._asked += 1
        return {LANE} if self.moves or self._asked % 2 else set()

    def take(self, lane: Lane, records: Records, next_offset: int) -> None:
        assert lane == LANE
        if self.breaks:
            raise RuntimeError("this handler is broken")
        self.taken += [message.offset for message in records]
        self.next_offset = next_offset

    def caught_up(self, lags: Mapping[Lane, int]) -> None:
        """It goes by what it was given."""

    def finished(self) -> Mapping[Lane, int]:
        return {}

    def lost(self, partitions: set[int]) -> None:
        self.failure = f"lost {partitions}"

    def commit_failed(self, error: Exception) -> None:
        self.failure = str(error)

    def group_failed(self, error: Exception) -> None:
        self.failure = str(error)

    def done(self) -> bool:
        return bool(self.failure) or self.total - 1 in self.taken or self.deadline.passed


def main(settings: dict[str, object]) -> None:
    """Run until the last record was handed over, or too long."""
    configure("warning")
    topic = str(settings["topic"])
    deadline = Deadline.after(Clock(), int(str(settings["timeout_ms"])))
    handler = Fickle(int(str(settings["total"])), bool(settings["moves"]), settings["breaks"] == "handler", deadline)
    if settings["breaks"] == "fetch":
        fetcher.MemoryRecords = break_fetch
    config = WorkerConfig(app=f"{topic}-app", session_timeout_ms=6_000, max_poll_records=7)
    kafka = KafkaConfig(bootstrap=str(settings["bootstrap"]))
    directory, web_port = Path(str(settings["directory"])), int(str(settings["web_port"]))
    run_worker(build_app(handler, kafka, (topic,), config, directory=directory, web_port=web_port))
    found = {"taken": handler.taken, "before_move": handler.before_move, "next_offset": handler.next_offset}
    sys.stdout.write(json.dumps(found | {"failure": handler.failure}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
