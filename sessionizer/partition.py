"""Partition: one partition of the interactions topic from its recovery to its last cut.

Owns the order of things: recover, decode, judge, feed, apply marks, emit, commit, cut. Thin: what an event means
is the core's, when a mark acts is `marks`', how bytes reach Kafka is the outlet's. Runs in one thread at a time.
Never reads a clock by itself, and imports no client: the same class runs on an outlet in memory.

Commit order, in one transaction of the partition:
    1. mini-batches, end records and dead letters since the last commit, and clock marks to be decided
    2. when a cut is due, the profiles that have changed, then the cut (acknowledged, so that its place is known)
    3. the progress record
    4. commit: all of it becomes visible, or nothing
    5. the working copy of the profiles takes in what has changed; marks are read back from the clock topic and only
       then applied
A crash before 4 leaves nothing; recovery re-makes it. A crash after 4 finds progress that says what to suppress, and
a working copy whose tag says what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sessionizer.core import PartitionCore
from sessionizer.effects import Effect, EmitBatch, EndReached, ReportLate
from sessionizer.marks import Marks, fresh_mark, future_marks, idle_mark
from sessionizer.outlet import Journal, Outlet, Recovered
from sessionizer.profile_copy import ProfileCopy
from sessionizer.progress import CutRef, Progress, checksum
from sessionizer.reporting import PartitionReport
from sessionizer.worker_config import WorkerConfig
from streams.clock_mark import ClockMark
from streams.errors import InvariantError, Reason
from streams.events.event import EventBatch
from streams.events.record import Decoded, Record, Records, Rejected
from streams.inputs import Input

_CUT_SHARE = 20
"""A cut that took t is followed by at least 20 t without one, for each partition that shares the process."""


class Decoder(Protocol):
    """What turns records into events; `streams.events.decode.EventDecoder` in production."""

    def decode(self, records: Records, *, now_ms: int | None = None) -> Decoded:
        """Events, rejected records, and those that lie in the future by the wall clock `now_ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """How the parts of a partition are made; each is called once per recovery, in this order."""

    outlet: Callable[[], Outlet]
    """Opens the outlet and fences every older writer of the partition."""
    journal: Callable[[], Journal]
    core: Callable[[bytes | None, int], PartitionCore]
    """The core of a cut; without one a new core that starts at the given offset."""
    decoder: Decoder
    profiles: Callable[[], ProfileCopy] | None = None
    """The working copy of the users' profiles, where they are kept outside the core."""


class Partition:
    """A recovered partition at work."""

    def __init__(
        self,
        partition: int,
        makers: Makers,
        config: WorkerConfig,
        report: PartitionReport,
        *,
        now_ms: Callable[[], int],
        lateness_ms: int,
        fresh_ms: int = 0,
    ) -> None:
        self.partition = partition
        self._config = config
        self.report = report
        self._now_ms = now_ms
        self._lateness_ms = lateness_ms
        self._fresh_ms = fresh_ms
        self._decoder = makers.decoder
        self._profiles = makers.profiles() if makers.profiles is not None else None
        if self._profiles is not None:
            self._profiles.reach()  # Nothing else is opened again and again while it does not answer.
        self._outlet = makers.outlet()
        self._journal = makers.journal()
        recovered = self._journal.load()
        self._known = self._progress = recovered.progress
        self.start_offset = start_offset(recovered)
        """Where the topic is to be read from."""
        self.core = makers.core(recovered.cut, self.start_offset)
        self._changed: dict[int, bytes | None] = {}
        if self._profiles is not None:
            self._profiles.open(recovered.progress.cut.profiles_offset if recovered.progress.cut else 0)
        self._marks = Marks(partition, recovered.progress, self.start_offset)
        self._add(self._journal.start_clock(self._marks.next_clock_offset))
        self._committed_ms = self._cut_ms = self._record_ms = self._append_ms = now_ms()
        self._cut_took_ms = 0
        self._ready_ms, self._ready_since = self._cut_ms, -1
        self._unsent = False
        report.start(self.core)
        self._apply_due()

    @property
    def committed_offset(self) -> int:
        """What observers may take for processed: everything below is, for good."""
        return self._progress.next_offset

    @property
    def ended(self) -> bool:
        """Whether the last thing that happened was an end mark, and is in a cut."""
        cut = self._progress.cut
        return cut is not None and cut.ended_at == cut.next_offset == self.core.next_offset

    def feed(self, records: Records) -> None:
        """Records of one poll, in offset order; those that were processed before are ignored."""
        if len(records) and records[0].offset < self.core.next_offset:
            records = records[sum(message.offset < self.core.next_offset for message in records) :]
        if not len(records):
            return
        now_ms = self._record_ms = self._now_ms()
        decoded = self._decoder.decode(records, now_ms=now_ms)
        appended_ms = int(decoded.events.appended_ms[-1]) if len(decoded.events) else -1
        self._append_ms = appended_ms if appended_ms >= 0 else now_ms
        judged = False
        while self.core.next_offset < decoded.next_offset:
            if not judged and not self._marks.replaying:
                self._judge_future(decoded)
                judged = True
            self._feed_until(self._marks.next_stop(decoded.next_offset), decoded)
        if self._outlet.open_bytes >= self._config.max_transaction_bytes and not self._marks.replaying:
            self._commit()

    def tick(self, *, caught_up: bool, together: int = 1) -> None:
        """What has to be done from time to time.

        `caught_up`: every record of the topic has been fed. `together`: partitions at work in this process.
        """
        self._add(self._journal.new_marks())
        self._apply_due()
        now_ms = self._now_ms()
        self.report.state(self.core, now_ms)
        if self._marks.replaying:
            return
        if self._cut_due(now_ms, together):
            self._commit(with_cut=True)
        elif self._unsent and now_ms - self._committed_ms >= self._config.commit_every_ms:
            self._commit()
        if self._fresh_ms:
            self._keep_fresh(now_ms)
        if caught_up and self.core.held and now_ms - self._record_ms >= self._config.idle_ms:
            self._record_ms = now_ms
            self._advance_idle(now_ms)

    def finish(self) -> None:
        """Commit what is open together with a cut, unless what was made before is still being made again."""
        if not self._marks.replaying and (self._unsent or self.core.next_offset != self._cut_offset):
            self._commit(with_cut=True)

    def close(self) -> None:
        """Give up what is not committed, and leave Kafka."""
        self._outlet.close()
        self._journal.close()
        if self._profiles is not None:
            self._profiles.close()
        self.report.forget()

    @property
    def _cut_offset(self) -> int:
        return self._progress.cut.next_offset if self._progress.cut else -1

    def _cut_due(self, now_ms: int, together: int) -> bool:
        if self.core.next_offset == self._cut_offset and not self._unsent:
            return False
        pause_ms = max(self._config.cut_every_ms, _CUT_SHARE * self._cut_took_ms * together)
        return now_ms - self._cut_ms >= pause_ms or self._marks.ended_at == self.core.next_offset

    def _feed_until(self, stop: int, decoded: Decoded) -> None:
        """Feed the records below `stop`, then apply the marks that act there."""
        start = self.core.next_offset
        events = between(decoded.events, start, stop)
        rejected = [one for one in decoded.rejected if start <= one.offset < stop]
        if self._marks.future:
            events, future = without_future(events, self._marks.future, decoded.origin)
            rejected = sorted(rejected + future, key=lambda one: one.offset)
        self._load(events)
        self._perform(self.core.feed(events, rejected=len(rejected), next_offset=stop))
        for one in rejected:
            if one.offset >= self._known.next_offset:
                self._outlet.send_dead_letter(one)
                self.report.dead_letter(one)
                self._unsent = True
        self._marks.move(stop)
        self._apply_due()

    def _load(self, events: EventBatch) -> None:
        """Fetch the profiles of users that the core does not hold, all of them at once."""
        users = self.core.unknown(events)
        if len(users) and self._profiles is not None:
            self.core.load_profiles(users, self._profiles.read(users.tolist()))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case EmitBatch(batch):
                    if batch.sequence >= self._known.next_sequence:
                        self.report.batch(batch, self._outlet.send_batch(batch))
                        self._unsent = True
                case EndReached(epoch=epoch):
                    if epoch >= self._known.next_epoch:
                        self._outlet.send_end(epoch)
                        self._unsent = True
                case ReportLate():
                    if not self._marks.replaying:
                        self.report.late(effect)

    def _apply_due(self) -> None:
        """Apply the marks that act here; then settle the requests that came too late to act where they said."""
        while True:
            while (mark := self._marks.due()) is not None:
                self._perform(self.core.apply(mark))
            settlements = self._marks.settle()
            if not settlements:
                return
            self._decide(settlements)

    def _decide(self, marks: list[ClockMark]) -> None:
        """Write marks of our own, and read them back: from then on they are facts."""
        for mark in marks:
            self._outlet.send_mark(mark)
        self._add(self._journal.marks_through(self._commit()))

    def _add(self, marks: list[tuple[int, ClockMark | None]]) -> None:
        for clock_offset, mark in marks:
            self._marks.add(clock_offset, mark)

    def _commit(self, *, with_cut: bool = False) -> int:
        self._expect_replayed()
        known_cut = self._progress.cut
        # Without a cut there is nothing to suppress from: the first commit always holds one.
        cut = self._cut() if with_cut or known_cut is None else known_cut
        progress = Progress(
            next_offset=self.core.next_offset,
            next_sequence=self.core.next_sequence,
            next_epoch=self.core.epoch,
            clock_offset=self._marks.next_clock_offset,
            cut=cut,
        )
        clock_offset = self._outlet.commit(progress)
        self._progress = progress
        self._unsent = False
        if cut is not known_cut and self._profiles is not None:
            self._profiles.write(self._changed, cut.profiles_offset)
            self.core.evict()
        self._committed_ms = self._now_ms()
        self.report.account(self.core.account)
        return clock_offset

    def _cut(self) -> CutRef:
        begun_ms = self._now_ms()
        old = self._progress.cut
        number = old.number + 1 if old else 1
        profiles_offset = old.profiles_offset if old else 0
        if self._profiles is not None:
            self._changed = self.core.changed_profiles()
            profiles_offset = self._outlet.send_profiles(self._changed) or profiles_offset
        data = self.core.cut()
        place = self._outlet.send_cut(data, number, old.chunks if old else 0)
        self._cut_ms = self._now_ms()
        self._cut_took_ms = self._cut_ms - begun_ms
        return CutRef(
            number=number,
            first_offset=place.first_offset,
            chunks=place.chunks,
            size_bytes=len(data),
            crc32c=checksum(data),
            next_offset=self.core.next_offset,
            clock_offset=self._marks.oldest_clock_offset,
            applied=self._marks.applied,
            ended_at=self._marks.ended_at,
            profiles_offset=profiles_offset,
        )

    def _advance_idle(self, now_ms: int) -> None:
        mark = idle_mark(
            self._marks,
            now_ms=now_ms,
            last_append_ms=self._append_ms,
            max_time_ms=self.core.max_time_of(Input.INTERACTIONS),
            watermark_ms=self.core.watermark_ms,
            lateness_ms=self._lateness_ms,
        )
        if mark is not None:
            self._decide([mark])
            self._apply_due()

    def _keep_fresh(self, now_ms: int) -> None:
        """Write a mark once what may leave has waited for `fresh_ms`."""
        if not self.core.num_ready or self.core.ready_since != self._ready_since:
            self._ready_ms, self._ready_since = now_ms, self.core.ready_since
        elif now_ms - self._ready_ms >= self._fresh_ms:
            self._ready_ms = now_ms
            self._decide([fresh_mark(self._marks)])
            self._apply_due()

    def _judge_future(self, decoded: Decoded) -> None:
        """Write marks for records that lie in the future and of which nothing is known yet."""
        verdicts: dict[int, int] = {}
        for offset, time_ms in zip(decoded.future.tolist(), decoded.future_ms.tolist(), strict=True):
            if offset >= self._known.next_offset and offset not in self._marks.future:
                verdicts[offset] = min(time_ms, verdicts.get(offset, time_ms))
        if verdicts:
            self._decide(future_marks(self.partition, list(verdicts.items())))
            self._apply_due()

    def _expect_replayed(self) -> None:
        assert not self._marks.replaying, "a commit now would move progress backwards"
        if self.core.next_sequence < self._known.next_sequence:
            raise InvariantError(
                f"partition {self.partition}: {self._known.next_sequence} batches were emitted before offset "
                f"{self._known.next_offset}, but re-reading gives only {self.core.next_sequence}; "
                "the interactions topic, the clock topic or the cut was changed"
            )


def start_offset(recovered: Recovered) -> int:
    """Where to read on; InvariantError when those records are gone or never were."""
    progress, begin = recovered.progress, recovered.begin_offset
    if progress.cut is None:
        return begin
    wanted = progress.cut.next_offset
    if wanted < begin:
        raise InvariantError(
            f"the records from offset {wanted} to {begin} expired before they were read, so sessions would be torn; "
            "raise the topic's retention; to go on without them choose another worker.app and mini-batch topic"
        )
    if progress.next_offset > recovered.end_offset:
        raise InvariantError(
            f"offset {progress.next_offset} was processed but the partition ends at {recovered.end_offset}: the topic "
            "was deleted and made anew; choose another worker.app and mini-batch topic"
        )
    return wanted


def between(events: EventBatch, start: int, stop: int) -> EventBatch:
    """The events with start <= offset < stop."""
    low, high = np.searchsorted(events.offset, (start, stop))
    return events if low == 0 and high == len(events) else events.take(np.arange(low, high, dtype=np.int64))


def without_future(
    events: EventBatch, future: Mapping[int, int], origin: Callable[[int, int], Record]
) -> tuple[EventBatch, list[Rejected]]:
    """The events without those that marks found in the future, and these as rejected records.

    `future`: offset of a record to the event time from which on its events lie in the future. `origin`: the record of
    an event, by its offset and event id.
    """
    marked = np.isin(events.offset, list(future))
    from_ms = [future[offset] for offset in events.offset[marked].tolist()]
    marked[marked] = events.event_time_ms[marked] >= np.array(from_ms, np.int64)
    if not marked.any():
        return events, []
    found = events.take(np.flatnonzero(marked))
    places = zip(found.offset.tolist(), found.event_id.tolist(), found.event_time_ms.tolist(), strict=True)
    rejected = []
    for offset, event_id, time_ms in places:
        record = origin(offset, event_id)
        detail = f"its time {time_ms} lay in the future when it was read, and it does not say when it was appended"
        rejected.append(
            Rejected(partition=record.partition, offset=offset, reason=Reason.FUTURE_TIME, detail=detail, record=record)
        )
    return events.take(np.flatnonzero(~marked)), rejected
