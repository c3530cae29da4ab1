"""Configuration of the sessionizer's process: how often it commits, how much it buffers, how it shares the work.

Times are wall-clock milliseconds. None of them changes what is in a mini-batch, only when it becomes visible;
`idle_ms` and `when_ahead` act through clock marks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from streams.errors import ConfigError
from streams.strict import STRICT

WhenAhead = Literal["block", "shed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerConfig:
    """One sessionizer worker. Workers of the same `app` share the partitions."""

    __pydantic_config__: ClassVar = STRICT

    app: str = "recd-sessionizer"
    """Name of the consumer group, and the start of every transactional id. One per pair of topics."""
    instance: str | None = None
    """Name of this worker that survives a restart (static membership): its partitions wait for it instead of moving."""
    commit_every_ms: int = 500
    """Mini-batches become visible to the trainer at least this often."""
    cut_every_ms: int = 5_000
    """A snapshot of a partition is written at most this often; large ones less often, so that those of all
    partitions take a twentieth of the time. After a crash, what came since the last one is read again."""
    idle_ms: int = 30_000
    """After this much silence on a partition that holds samples, its event time follows the wall clock."""
    max_skew_ms: int = 60_000
    """With outcomes in a topic of their own: how far one input may be read ahead of the other, in event time. The one
    ahead pauses, so that what waits for the other one stays small."""
    max_early_records: int = 500_000
    """Events of one input of a partition that wait for the other one while that is silent; then it pauses."""
    max_queue_records: int = 10_000
    """Records of a partition that wait to be processed; when there are more, fetching it pauses. Few, so that they are
    still in the caches when their turn comes."""
    max_poll_records: int = 10_000
    """Records handed over at once, of all partitions together."""
    max_fetch_bytes: int = 4 << 20
    """Bytes fetched from a partition at once."""
    max_transaction_bytes: int = 32 << 20
    """A transaction with this much in it is committed early."""
    max_ahead_bytes: int = 0
    """Output of a partition waits while this many bytes of its mini-batches are in no checkpoint of the trainer yet;
    0 turns it off. Must hold more than the trainer trains between two checkpoints, or it waits for their clock. Goes by
    the offsets of `source.group`, once a second; one poll's mini-batches may exceed it."""
    when_ahead: WhenAhead = "block"
    """What happens at `max_ahead_bytes`. block: output waits, and nothing is lost. shed: whole sessions are left
    out and counted: an eighth of them, and another eighth every `shed_step_ms` for as long as so much waits; an
    eighth less each time once it is below half. Output then waits at twice as many bytes. Meant for live streams:
    a worker that reads a backlog is always ahead. Decided by clock marks: a replay sheds the same sessions."""
    shed_step_ms: int = 10_000
    """With when_ahead = "shed": the time between two changes of the share that is shed."""
    cut_chunk_bytes: int = 900_000
    """Cuts are written in records of this size; it must fit the broker's largest message."""
    session_timeout_ms: int = 10_000
    """A worker that is silent for so long loses its partitions. The broker's limits are 6 s and 30 min."""
    drain_ms: int = 30_000
    """Time for the last transaction and cut of all partitions at shutdown or when partitions move."""
    retry_ms: int = 1_000
    """Pause before a partition is recovered after Kafka failed."""

    def __post_init__(self) -> None:
        if not self.app.strip():
            raise ConfigError("worker.app is empty; give the group a name")
        for one in fields(self):
            value = getattr(self, one.name)
            least = 0 if one.name == "max_ahead_bytes" else 1
            if isinstance(value, int) and value < least:
                raise ConfigError(f"worker.{one.name} must be at least {least}")
        if self.when_ahead == "shed" and not self.max_ahead_bytes:
            raise ConfigError(
                'worker.when_ahead = "shed" does nothing without worker.max_ahead_bytes; say how much may wait'
            )
        if self.max_poll_records > self.max_queue_records:
            raise ConfigError("worker.max_poll_records exceeds worker.max_queue_records; raise the latter")

    def transactional_id(self, partition: int) -> str:
        """Fences older owners of the partition."""
        return f"{self.app}-{partition}"
