"""One round of the sessionizer's audit: topics of its own, workers, points at which they die or move, a verdict.

Owns the order of a round. Events come in portions, one before each point, so that there always is work in flight;
after the last point the end marks are written, every worker runs to its end, and what Kafka holds is compared with
the undisturbed run.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from infra.clock import Deadline
from sessionizer.account import Account
from sessionizer.config import JoinConfig
from sessionizer.progress import CutRef
from sessionizer.recovery import KafkaJournal
from sessionizer.worker_config import WorkerConfig
from streams.clock_mark import ClockMark, MarkKind
from streams.kafka import client
from streams.minibatch import MiniBatch
from tests.fault import audit_worker
from tests.fault.audit_worker import Orders, Worker
from tests.fault.audit_world import JOIN, Outcome, Pair, appended_ms, stream, undisturbed
from tests.sessionizer.shell.town import Town, town
from tests.sessionizer.shell.world import identities

PARTITIONS: Final = 3
EVENTS: Final = 3_000
"""Of each partition."""
_WAIT_MS: Final = 180_000
_DEATH_MS: Final = 30_000
"""A site that is not passed within this is not passed by this worker at this point."""
_IDLE_LOOKS: Final = 4
_ASSIGN_MS: Final = 60_000


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is wrong with what a round left behind; all zero when it is exact."""

    lost: int = 0
    """Samples of the undisturbed run, and corrections of samples, that are in no mini-batch."""
    twice: int = 0
    """Samples and corrections that are in mini-batches more often than in those of the undisturbed run."""
    differing: int = 0
    """Mini-batches whose sequence, content or lineage is not that of the undisturbed run."""
    letters: int = 0
    """Dead letters too many or too few."""
    ends: int = 0
    """End records too many or too few."""

    @property
    def exact(self) -> bool:
        return self == Verdict()

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})


class _ProgressWatcher(KafkaJournal):
    """Reads progress while its writer lives, who may be writing the next cut over the one that it names."""

    def _cut(self, cut: CutRef) -> bytes:  # noqa: ARG002  (its base's)
        return b""


@dataclass
class Round:
    """A town under attack."""

    place: Town
    pairs: list[list[Pair]]
    portions: int
    config: WorkerConfig
    admin: AdminClient
    fresh_ms: int = 0
    join: JoinConfig = JOIN
    suppress: bool = True
    workers: dict[str, Worker] = field(default_factory=dict)
    account: Account = field(default_factory=Account)
    """Of the undisturbed run, all partitions together; known after `verdict`."""
    produced: int = 0
    """Records of each partition so far."""
    _watchers: dict[int, _ProgressWatcher] = field(default_factory=dict)

    def start(self, name: str, *, crash: tuple[str, int] | None = None, static: bool = True) -> Worker:
        """A worker of this name; a static one comes back to the partitions it had."""
        orders = Orders(
            kafka=self.place.kafka,
            topics=self.place.topics,
            worker=replace(self.config, instance=name if static else None),
            directory=self.place.directory / name,
            fresh_ms=self.fresh_ms,
            join=self.join,
            crash=crash,
            suppress=self.suppress,
        )
        self.workers[name] = audit_worker.start(orders, self._log(name))
        return self.workers[name]

    def produce(self, *, ending: bool = False) -> None:
        """The next portion of every partition; `ending`: all that is left, and the end marks."""
        size = EVENTS // (self.portions + 1)
        start, stop = self.produced, EVENTS if ending else self.produced + size
        producer = client.producer(self.place.kafka, client_id="audit")
        for partition, pairs in enumerate(self.pairs):
            for offset in range(start, stop):
                key, value = pairs[offset]
                producer.produce(self.place.topics.interactions, value, key, partition, timestamp=appended_ms(offset))
        assert producer.flush(60) == 0
        self.produced = stop
        if ending:
            for partition in range(PARTITIONS):
                self.place.end(partition, EVENTS)

    def end_epochs(self) -> None:
        """An end mark for every partition behind what has been produced: an epoch ends in the middle."""
        for partition in range(PARTITIONS):
            self.place.end(partition, self.produced)

    @property
    def unfinished(self) -> int:
        """Records that were produced and are not finished for good."""
        return PARTITIONS * self.produced - sum(self._committed(partition) for partition in range(PARTITIONS))

    def wait_until_moving(self) -> bool:
        """Until something new is committed for good; False if that does not happen."""
        before, deadline = self.unfinished, Deadline.after(self.place.clock, _DEATH_MS)
        while self.unfinished >= before and not deadline.passed:
            self.place.clock.sleep(20)
        return not deadline.passed

    def wait_until_emitting(self) -> bool:
        """Until a mini-batch is committed; False if that does not happen."""
        deadline = Deadline.after(self.place.clock, _DEATH_MS)
        topic = self.place.topics.minibatches
        while not any(self.place.read(topic, partition) for partition in range(PARTITIONS)) and not deadline.passed:
            self.place.clock.sleep(20)
        return not deadline.passed

    def wait_for_assignment(self, name: str, count: int) -> bool:
        """Until a worker has been given partitions so many times."""
        deadline = Deadline.after(self.place.clock, _ASSIGN_MS)
        while self.assignments(name) < count and self.workers[name].alive and not deadline.passed:
            self.place.clock.sleep(20)
        return self.assignments(name) >= count

    def assignments(self, name: str) -> int:
        """How often the workers of this name were given partitions."""
        log = self._log(name)
        return log.read_text().count("partitions assigned") if log.exists() else 0

    def dies(self, worker: Worker) -> bool:
        """Whether a worker with a crash inside dies of it; one that has nothing left to do will not."""
        deadline, idle = Deadline.after(self.place.clock, _DEATH_MS), 0
        while worker.alive and not deadline.passed and idle < _IDLE_LOOKS:
            worker.wait(self.place.clock, 500)
            idle = 0 if self.unfinished else idle + 1
        return worker.was_killed

    def finish(self) -> None:
        """The rest of the events, the end marks, and every worker to its end."""
        self.produce(ending=True)
        deadline = Deadline.after(self.place.clock, _WAIT_MS)
        while self.unfinished or not self._all_ended():
            assert not deadline.passed, self.logs()
            assert any(worker.alive for worker in self.workers.values()), self.logs()
            self.place.clock.sleep(100)
        # One that has no partition would wait for one.
        for worker in self.workers.values():
            if worker.alive:
                worker.send(signal.SIGTERM)
        for worker in self.workers.values():
            assert worker.wait(self.place.clock, _WAIT_MS), self.logs()

    def verdict(self) -> Verdict:
        """Compare what readers of committed records see with the undisturbed run."""
        found = Verdict()
        for partition, pairs in enumerate(self.pairs):
            expected = undisturbed(pairs[: self.produced], self._marks(partition), partition, self.join)
            expected.account.check(held=0)
            self.account += expected.account
            found += self._compare(partition, expected)
        return found

    def logs(self) -> str:
        return self.place.logs()

    def _log(self, name: str) -> Path:
        return self.place.directory / f"{name}.log"

    def _compare(self, partition: int, expected: Outcome) -> Verdict:
        batches = self.place.batches(partition)
        seen, due = _samples(batches), _samples(expected.batches)
        got, wanted = Counter(identities(batches)), Counter(identities(expected.batches))
        letters = Counter(map(_place_and_reason, self.place.read(self.place.topics.dead_letter, partition)))
        wrong_letters = (letters - Counter(expected.letters)) + (Counter(expected.letters) - letters)
        in_order = identities(batches) == identities(expected.batches)
        return Verdict(
            lost=(due - seen).total(),
            twice=(seen - due).total(),
            differing=((got - wanted) + (wanted - got)).total() or int(not in_order),
            letters=wrong_letters.total(),
            ends=abs(self.place.ends(partition) - expected.ends),
        )

    def _marks(self, partition: int) -> list[ClockMark | None]:
        """By offset in the clock topic; the marker of a transaction leaves a place empty."""
        found: dict[int, ClockMark] = {}
        for message in self.place.read(self.place.topics.clock, partition):
            found[message.offset() or 0] = ClockMark.decode(message.value() or b"")
        return [found.get(offset) for offset in range(max(found, default=-1) + 1)]

    def _all_ended(self) -> bool:
        return all(self.place.ends(partition) >= self._epochs(partition) for partition in range(PARTITIONS))

    def _epochs(self, partition: int) -> int:
        marks = [mark for mark in self._marks(partition) if mark is not None and mark.kind is MarkKind.END]
        return sum(mark.replaces is None for mark in marks)

    def _committed(self, partition: int) -> int:
        if partition not in self._watchers:
            watcher = _ProgressWatcher(partition, self.place.kafka, self.place.topics, warn=lambda _: None)
            self._watchers[partition] = watcher
        return self._watchers[partition].load().progress.next_offset

    def close(self) -> None:
        """End what is left."""
        for worker in self.workers.values():
            worker.kill()
        for watcher in self._watchers.values():
            watcher.close()


@contextmanager
def audit_round(
    bootstrap: str,
    name: str,
    directory: Path,
    *,
    seed: int,
    portions: int,
    fresh_ms: int = 0,
    join: JoinConfig = JOIN,
    plain: bool = False,
    **worker: object,
) -> Iterator[Round]:
    """A round with its topics; no worker survives it."""
    directory.mkdir(parents=True, exist_ok=True)
    # Small polls and quick commits, so that much happens in a short time.
    config = WorkerConfig(
        app=f"{name}-app", commit_every_ms=50, cut_every_ms=150, session_timeout_ms=6_000, max_poll_records=20,
        retry_ms=100, idle_ms=600_000,
    )  # fmt: skip
    pairs = [stream(EVENTS, seed=seed * PARTITIONS + partition) for partition in range(PARTITIONS)]
    with town(bootstrap, name, directory, partitions=PARTITIONS) as place:
        place.kafka = replace(place.kafka, plain=plain)
        config = replace(config, **worker)  # type: ignore[arg-type]  # fields of it
        made = Round(place, pairs, portions, config, client.admin(place.kafka), fresh_ms, join)
        try:
            yield made
        finally:
            made.close()


def _samples(batches: Sequence[MiniBatch]) -> Counter[tuple[int, int]]:
    """Offset and event id of each sample, and once more for each of its corrections."""
    places = [zip(b.lineage.offset.tolist(), b.lineage.event_id.tolist(), strict=True) for b in batches]
    return Counter(pair for of_batch in places for pair in of_batch)


def _place_and_reason(message: Message) -> tuple[int, str]:
    headers = dict(message.headers() or ())
    reason = headers["recd-reason"]
    assert isinstance(reason, bytes)
    return int(headers["recd-source-offset"] or b""), reason.decode()
