"""The sessionizer's process: partitions in threads of their own behind a Faust worker.

Owns the threads, what waits between the event loop and them, and the summary. `wiring` makes the partitions.
Never decides what an event means, and touches no private name of Faust.

Threads: each assigned partition has one, which owns its core, its producer and its consumer alone; so a partition
that waits for Kafka holds up no other one, and nothing heavy or blocking runs on the event loop. The loop only
fetches and passes record lists on; when a partition's queue is full it is not fetched, while polling goes on.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sessionizer.account import Account
from sessionizer.allocator import give_back_early
from sessionizer.faust_seam import build_app, run_worker
from sessionizer.garbage import collect_rarely
from sessionizer.handler import Lane
from sessionizer.outlet import FencedError
from sessionizer.partition import Partition
from sessionizer.refusals import more_partitions, torn_partitions
from sessionizer.summary import Summary
from sessionizer.wiring import Job
from streams.errors import ConfigError, RetryableError
from streams.events.record import Records
from streams.inputs import Input, Position

TICK_S = 0.05
"""How soon a clock mark is seen by a partition that has nothing to do."""
MOST_FENCINGS, FENCINGS_TIMEOUTS = 3, 10
"""So many rebalances with a fenced partition within so many session time-outs: two share a `worker.instance`."""


@dataclass(slots=True)
class State:
    """What the event loop may know of a partition, replaced as a whole by the partition's thread."""

    committed: Position = field(default_factory=Position)
    ended: bool = False
    """Whether an end mark was the last thing that happened, and no record is known to follow it."""
    held: int = 0
    account: Account = field(default_factory=Account)


class PartitionThread:
    """A partition at work until it is stopped, moves away or fails."""

    def __init__(self, partition: int, job: Job, together: Callable[[], int]) -> None:
        """`together` tells how many partitions are at work in this process."""
        self.partition = partition
        self.state = State()
        self.failure: BaseException | None = None
        self.fenced_ms = -1
        """When another worker was found to own the partition; -1: not."""
        self._job = job
        self._together = together
        self._inputs = tuple(Input)[: len(job.topics.inputs)]
        self.lags: dict[Input, int] = {}
        """Records of each input that were not handed over yet, once known."""
        self._inbox: deque[tuple[Input, Records, int]] = deque()
        """What was handed over, and where the next record can be at the earliest."""
        self._queued = dict.fromkeys(Input, 0)
        self._handed = dict.fromkeys(Input, 0)
        """Next offset of each input that was not handed over."""
        self._start: Position | None = None
        self._started = False
        self._readable = frozenset(self._inputs)
        """Inputs that need not wait for the other one, and of which not much waits."""
        self._changed = threading.Condition()
        self._stopping = self._lost = False
        self._at_work: Partition | None = None
        self._thread = threading.Thread(target=self._run, name=f"partition-{partition}", daemon=True)
        self._thread.start()

    def take_start(self) -> dict[Lane, int]:
        """The offsets to read from, once after each recovery."""
        with self._changed:
            start, self._start = self._start, None
            self._started = self._started or start is not None
            return {} if start is None else {(source, self.partition): start[source] for source in self._inputs}

    @property
    def wants(self) -> set[Lane]:
        """Of which inputs more records may come."""
        most = self._job.worker.max_queue_records if self._started and self._start is None else 0
        return {(source, self.partition) for source in self._readable if self._queued[source] < most}

    def put(self, source: Input, records: Records, next_offset: int) -> None:
        """Queue records and where the next can be, if that is news; ignored while the partition is recovering."""
        with self._changed:
            news = len(records) > 0 or next_offset > self._handed[source]
            if news and self._started and self._start is None:
                self._inbox.append((source, records, next_offset))
                self._queued[source] += len(records)
                self._handed[source] = max(next_offset, self._handed[source])
                self._changed.notify()

    def lag(self, source: Input, records: int) -> None:
        """So many were not handed over; what was counted before the partition was recovered means nothing after it."""
        with self._changed:
            if self._started and self._start is None:
                self.lags[source] = records

    def lose(self) -> None:
        """The next record is not in the topic: recover, which says whether it can be had at all."""
        with self._changed:
            self._lost = True
            self._changed.notify()

    def stop(self) -> None:
        """Ask for the last transaction and cut; `join` waits for them."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._work()
            except RetryableError as error:
                self._job.reporter.count("recd_commit_failures_total")
                self._job.log("partition will be recovered", {"partition": self.partition, "error": str(error)})
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, self._job.worker.retry_ms / 1000)
            except FencedError as error:
                self.fenced_ms = self._job.now_ms()
                self._job.log("partition was taken over", {"partition": self.partition, "error": str(error)})
                return
            except BaseException as error:  # noqa: BLE001  (whatever it is, the worker must stop and say so)
                error.add_note(f"partition {self.partition} of {self._job.topics.interactions}")
                self.failure = error
                return

    def _work(self) -> None:
        partition = self._job.partition(self.partition, self._pause)
        try:
            self._at_work = partition
            with self._changed:
                self._inbox.clear()
                self._queued = dict.fromkeys(Input, 0)
                self._handed = dict(zip(Input, partition.start, strict=True))
                self.lags = {}
                self._readable = frozenset(self._inputs)
                self._start = partition.start
                self._lost = False
                self._started = False
            while not self._stopping:
                found = self._next()
                if found is not None:
                    source, records, next_offset = found
                    partition.feed(records, source, next_offset=next_offset)
                partition.tick(caught_up=self._caught_up(), together=self._together())
                self._publish(partition)
            partition.finish()
            self._publish(partition)
        finally:
            self._at_work = None
            partition.close()

    def _pause(self, seconds: float) -> bool:
        """Wait for something outside; True once the partition is to stop. What piles up meanwhile is seen."""
        if self._at_work is not None:
            self._report_lags(self._at_work)
        with self._changed:
            return self._changed.wait_for(lambda: self._stopping, seconds)

    def _next(self) -> tuple[Input, Records, int] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._inbox or self._lost or self._stopping, TICK_S)
            if self._lost and not self._inbox:
                raise RetryableError("the next record to read is not in the topic any more, or not yet")
            if not self._inbox or self._stopping:
                return None
            source, records, next_offset = self._inbox.popleft()
            self._queued[source] -= len(records)
            return source, records, next_offset

    def _caught_up(self) -> frozenset[Input]:
        """Inputs of which every record, as far as is known, has been handed over."""
        with self._changed:
            waiting = {source for source, _, _ in self._inbox}
        return frozenset(source for source in self._inputs if self.lags.get(source) == 0 and source not in waiting)

    def _publish(self, partition: Partition) -> None:
        core, caught_up = partition.core, self._caught_up()
        ended = partition.ended and len(caught_up) == len(self._inputs)
        self.state = State(partition.committed, ended, core.held, Account() + core.account)
        most = self._job.worker.max_queue_records
        free = [source for source in self._inputs if partition.num_queued(source) < most]
        self._readable = frozenset(source for source in free if partition.may_read(source, caught_up=caught_up))
        self._report_lags(partition)

    def _report_lags(self, partition: Partition) -> None:
        for source, lag in tuple(self.lags.items()):
            partition.report.fetch_lag(source, lag + self._queued[source] + partition.num_queued(source))


class Fleet:
    """The partitions of this worker: the handler behind the seam."""

    def __init__(self, job: Job, *, exit_at_end: bool) -> None:
        self._job = job
        self._exit_at_end = exit_at_end
        self._threads: dict[int, PartitionThread] = {}
        self._fenced_ms: deque[int] = deque(maxlen=MOST_FENCINGS)
        """When partitions were found to be another's at a rebalance."""
        self.last: dict[int, State] = {}
        """State of the partitions that were held last, after they were finished."""
        self.failure: BaseException | None = None

    def assigned(self, partitions: set[int]) -> None:
        self._job.reporter.count("recd_rebalances_total")
        self._job.log("partitions assigned", {"partitions": sorted(partitions)})
        topics = self._job.topics
        if new := [partition for partition in partitions if partition >= topics.partitions]:
            self.failure = self.failure or more_partitions(topics.interactions, topics.partitions, max(new) + 1)
            return
        for partition in partitions - self._threads.keys():
            self._threads[partition] = PartitionThread(partition, self._job, self._num_partitions)

    def _num_partitions(self) -> int:
        return max(1, len(self._threads))

    async def revoked(self) -> None:
        threads, self._threads = self._threads, {}
        if not threads:
            return
        for thread in threads.values():
            thread.stop()
        await asyncio.to_thread(self._join, list(threads.values()))
        self.last = {partition: thread.state for partition, thread in threads.items()}
        self._look_for_failure(threads)
        self._look_for_twin(threads)

    def _join(self, threads: list[PartitionThread]) -> None:
        until_ms = self._job.now_ms() + self._job.worker.drain_ms
        for thread in threads:
            if not thread.join(max(0, until_ms - self._job.now_ms()) / 1000):
                # Its transaction stays open until the next owner aborts it; nothing is lost, it is only made again.
                self._job.log(
                    "partition was not finished in time",
                    {"partition": thread.partition, "error": "its last work is repeated when it is read again"},
                )

    def torn(self, partitions: set[int]) -> None:
        self.failure = self.failure or torn_partitions(self._job.topics.inputs, self._job.worker.app, partitions)

    def starts(self) -> dict[Lane, int]:
        return {lane: offset for thread in self._threads.values() for lane, offset in thread.take_start().items()}

    def wants(self) -> set[Lane]:
        return {lane for thread in self._threads.values() for lane in thread.wants}

    def take(self, lane: Lane, records: Records, next_offset: int) -> None:
        source, partition = lane
        if partition in self._threads:
            self._threads[partition].put(source, records, next_offset)

    def caught_up(self, lags: Mapping[Lane, int]) -> None:
        for (source, partition), lag in lags.items():
            if partition in self._threads:
                self._threads[partition].lag(source, lag)

    def finished(self) -> Mapping[Lane, int]:
        states = {partition: thread.state for partition, thread in self._threads.items()} or self.last
        sources = tuple(Input)[: len(self._job.topics.inputs)]
        return {(source, p): state.committed[source] for p, state in states.items() for source in sources}

    def lost(self, partitions: set[int]) -> None:
        for partition in partitions & self._threads.keys():
            self._threads[partition].lose()

    def commit_failed(self, error: Exception) -> None:
        self._job.reporter.count("recd_commit_failures_total")
        self._job.log("offsets were not committed; the next commit will", {"error": str(error)})

    def group_failed(self, error: Exception) -> None:
        worker = self._job.worker
        self.failure = self.failure or ConfigError(
            f"Kafka refuses this worker as a member of group {worker.app}: {error}; worker.session_timeout_ms is "
            f"{worker.session_timeout_ms} (the broker has limits), and the group needs the right READ"
        )

    def done(self) -> bool:
        self._look_for_failure(self._threads)
        if self.failure is not None:
            return True
        return self._exit_at_end and bool(self._threads) and all(t.state.ended for t in self._threads.values())

    def _look_for_failure(self, threads: Mapping[int, PartitionThread]) -> None:
        for thread in threads.values():
            self.failure = self.failure or thread.failure
            waited_ms = self._job.now_ms() - thread.fenced_ms if thread.fenced_ms >= 0 else 0
            if waited_ms > 3 * self._job.worker.session_timeout_ms:
                name = self._job.worker.transactional_id(thread.partition)
                self.failure = self.failure or FencedError(
                    f"partition {thread.partition} is ours in group {self._job.worker.app}, but another process writes "
                    f"as {name}; stop it, or give it another worker.app"
                )

    def _look_for_twin(self, threads: Mapping[int, PartitionThread]) -> None:
        """Two static members of one name take the partitions from each other for ever: the one fenced more leaves."""
        worker = self._job.worker
        if worker.instance is None or all(thread.fenced_ms < 0 for thread in threads.values()):
            return
        self._fenced_ms.append(self._job.now_ms())
        lasted_ms = self._fenced_ms[-1] - self._fenced_ms[0]
        if len(self._fenced_ms) == MOST_FENCINGS and lasted_ms < FENCINGS_TIMEOUTS * worker.session_timeout_ms:
            self.failure = self.failure or FencedError(
                f"another process of group {worker.app} has worker.instance = {worker.instance} too, and the two take "
                "the partitions from each other; give each process an instance of its own"
            )


def run(job: Job, *, directory: Path, exit_at_end: bool = False, web_port: int = 0) -> Summary:
    """Work until a signal, a failure, or the end of all partitions; Faust keeps its files in `directory`."""
    collect_rarely()
    give_back_early()
    fleet = Fleet(job, exit_at_end=exit_at_end)
    app = build_app(fleet, job.kafka, job.topics.inputs, job.worker, directory=directory, web_port=web_port)
    interrupted = run_worker(app)
    if fleet.failure is not None:
        raise fleet.failure
    states = fleet.last
    account = sum((state.account for state in states.values()), Account())
    held = sum(state.held for state in states.values())
    account.check(held)
    ended = bool(states) and all(state.ended for state in states.values())
    return Summary(partitions=sorted(states), ended=ended, interrupted=interrupted, held=held, account=account)
