"""Partition: one partition of the interactions, and of the outcomes if they have a topic, from recovery to last cut.

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

from collections.abc import Callable, Collection

from msgspec import UNSET

from sessionizer.backlog import Backlog, between, without_future
from sessionizer.effects import Effect, EmitBatch, EndReached, ReportLate
from sessionizer.makers import Makers
from sessionizer.marks import Marks, cut_ref, fresh_mark, future_marks, idle_mark, shed_mark
from sessionizer.progress import VERSION, VERSION_OF_TWO, CutRef, Progress
from sessionizer.reporting import PartitionReport
from sessionizer.starting import start_position
from sessionizer.worker_config import WorkerConfig
from streams.clock_mark import ClockMark
from streams.errors import InvariantError, RetryableError
from streams.events.event import EventBatch
from streams.events.record import Decoded, Records
from streams.inputs import Input, Position
from streams.minibatch import MiniBatch

_CUT_SHARE = 20
"""A cut that took t is followed by at least 20 t without one, for each partition that shares the process."""


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
    ) -> None:
        self.partition = partition
        self._config = config
        self.report = report
        self._now_ms = now_ms
        self._lateness_ms = lateness_ms
        two = makers.outcomes is not None
        self._profiles = makers.profiles() if makers.profiles is not None else None
        if self._profiles is not None:
            self._profiles.reach()  # An outlet that is open would fence, and have to be kept.
        self._outlet = makers.outlet()
        self._gate = makers.gate(report) if makers.gate is not None else None
        self._journal = makers.journal()
        recovered = self._journal.load()
        self._known = self._progress = recovered.progress
        self.start = start_position(recovered, two=two)
        """Where the inputs are to be read from."""
        self.core = makers.core(recovered.cut, self.start)
        self._changed: dict[int, bytes | None] = {}
        if self._profiles is not None:
            self._profiles.open(recovered.progress.cut.profiles_offset if recovered.progress.cut else 0)
        self._marks = Marks(partition, recovered.progress, self.start, two=two)
        self._add(self._journal.start_clock(self._marks.next_clock_offset))
        self._committed_ms = self._cut_ms = now_ms()
        decoders = (makers.decoder,) if makers.outcomes is None else (makers.decoder, makers.outcomes)
        self._backlogs = {
            source: Backlog(source, decoder, self.start[source], self._cut_ms)
            for source, decoder in zip(Input, decoders, strict=False)
        }
        self.inputs = tuple(self._backlogs)
        """What it reads."""
        self._cut_took_ms = 0
        self._freshness = makers.freshness(report, self._cut_ms)
        self._unsent = False
        report.start(self.core)
        self._apply_due()

    @property
    def committed(self) -> Position:
        """What observers may take for processed: everything below is, for good."""
        return self._progress.position

    @property
    def ended(self) -> bool:
        """Whether the last thing that happened was an end mark, and is in a cut."""
        cut = self._progress.cut
        return cut is not None and cut.ended == cut.position == self.core.position

    def feed(self, records: Records, source: Input = Input.INTERACTIONS, *, next_offset: int = 0) -> None:
        """Records of one poll of an input, in offset order; those that were processed before are ignored.

        `next_offset`: where the next record can be at the earliest, if that is known to be further than after these.
        """
        self._backlogs[source].put(records, self._now_ms(), next_offset)
        self._work()
        if self._outlet.open_bytes >= self._config.max_transaction_bytes and not self._marks.replaying:
            self._commit()

    def tick(self, *, caught_up: Collection[Input], together: int = 1) -> None:
        """What has to be done from time to time.

        `caught_up`: inputs of which every record has been handed over. `together`: partitions at work in this process.
        """
        if self._gate is not None:
            shut_ms, gate = self._gate.look(self._now_ms()), self._gate
            self._freshness.trained(gate.trained, self._now_ms(), shut=gate.is_shut, shut_ms=shut_ms)
        if not self._is_blocked:
            self._add(self._journal.new_marks())
            self._apply_due()
            self._work()
        now_ms = self._now_ms()
        self.report.state(self.core, now_ms)
        if self._marks.replaying:
            return
        if self._cut_due(now_ms, together):
            self._commit(with_cut=True)
        elif self._unsent and now_ms - self._committed_ms >= self._config.commit_every_ms:
            self._commit()
        if self._is_blocked:
            return
        self._keep_up(now_ms)
        self._keep_fresh(now_ms)
        for source in caught_up:
            self._keep_awake(self._backlogs[source], now_ms)

    def num_queued(self, source: Input) -> int:
        """Records of an input, more or less, that were handed over and wait."""
        return self._backlogs[source].num_records

    def may_read(self, source: Input, *, caught_up: Collection[Input]) -> bool:
        """Whether more of an input may be read: it must not run ahead of the other one.

        While anything is unread, one of the two may be read, or time alone makes it so. For the one that is behind in
        event time may be read, always; if nothing comes of it, then
            a mark holds it up: the other one may be read. Never are both held up, since marks that wait come one after
                the other, and where a replay ends is before those that it did not see (`marks`);
            or there is no more of it: the other one may be read while there is room, and after that as silence moves
                the one behind on (`_keep_awake`). Only outcomes of which no sample is held wait for interactions.
        """
        other = Input.OUTCOMES if source is Input.INTERACTIONS else Input.INTERACTIONS
        if other not in self._backlogs:
            return True
        ahead_ms = self.core.watermark_of(source) - self.core.watermark_of(other)
        if ahead_ms <= self._config.max_skew_ms or self._marks.is_blocked(other):
            return True
        return other in caught_up and self.core.num_early(source) < self._config.max_early_records

    def finish(self) -> None:
        """Commit what is open together with a cut, unless what was made before is still being made again."""
        if not self._marks.replaying and (self._unsent or self.core.position != self._cut_position):
            self._commit(with_cut=True)

    def close(self) -> None:
        """Give up what is not committed, and leave Kafka."""
        self._outlet.close()
        self._journal.close()
        if self._gate is not None:
            self._gate.close()
        if self._profiles is not None:
            self._profiles.close()
        self.report.forget()

    @property
    def _is_blocked(self) -> bool:
        """Whether nothing new may be emitted: what was emitted before is made again all the same."""
        return self._gate is not None and self._gate.is_shut and not self._marks.replaying

    @property
    def _cut_position(self) -> Position | None:
        return self._progress.cut.position if self._progress.cut else None

    def _cut_due(self, now_ms: int, together: int) -> bool:
        if self.core.position == self._cut_position and not self._unsent:
            return False
        pause_ms = max(self._config.cut_every_ms, _CUT_SHARE * self._cut_took_ms * together)
        return now_ms - self._cut_ms >= pause_ms or self._marks.ended_at == self.core.position

    def _work(self) -> None:
        """Feed what may be fed. The inputs take turns: one may have waited for the other."""
        fed = True
        while fed:
            fed = sum(self._feed_some(backlog) for backlog in self._backlogs.values()) > 0

    def _feed_some(self, backlog: Backlog) -> bool:
        """Feed an input up to where it has to stop next; False if it cannot go on."""
        source = backlog.source
        if self._is_blocked:
            return False
        if backlog.head is not None and not self._marks.replaying:
            self._judge_future(backlog)
        start, decoded = self.core.position[source], backlog.head
        stop = self._marks.next_stop(backlog.limit, source)
        if stop == start:
            return False
        if decoded is None:
            self._skip_to(stop, source)
            return True
        self._feed_until(stop, decoded, source)
        if stop == decoded.next_offset:
            backlog.drop_head()
        return True

    def _skip_to(self, stop: int, source: Input) -> None:
        """Pass offsets at which there is nothing to read, as feeding records behind them would."""
        self.core.position = self.core.position.moved(source, stop)
        self._marks.move(stop, source, by_events=False)
        self._apply_due()

    def _feed_until(self, stop: int, decoded: Decoded, source: Input) -> None:
        """Feed the records below `stop`, then apply the marks that act there."""
        start = self.core.position[source]
        events = between(decoded.events, start, stop)
        rejected = [one for one in decoded.rejected if start <= one.offset < stop]
        if ahead := self._marks.future(source):
            events, future = without_future(events, ahead, decoded.origin)
            rejected = sorted(rejected + future, key=lambda one: one.offset)
        self._load(events)
        self._perform(self.core.feed(events, rejected=len(rejected), next_offset=stop, source=source))
        for one in rejected:
            if one.offset >= self._known.position[source]:
                self._outlet.send_dead_letter(one)
                self.report.dead_letter(one)
                self._unsent = True
        self._marks.move(stop, source, by_events=len(events) + len(rejected) > 0)
        self._apply_due()

    def _load(self, events: EventBatch) -> None:
        """Fetch the profiles of users that the core does not hold, all of them at once."""
        users = self.core.unknown(events)
        if len(users) and self._profiles is not None:
            self.core.load_profiles(users, self._profiles.read(users.tolist(), self._leave_nothing_open))

    def _leave_nothing_open(self) -> None:
        """Before a long wait: Kafka aborts a transaction that stays open."""
        if self._unsent and not self._marks.replaying:
            if self._cut_position is None:
                raise RetryableError("nothing was committed yet: the partition begins again")
            self._commit()

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case EmitBatch(batch):
                    if batch.sequence >= self._known.next_sequence:
                        self._send(batch)
                case EndReached(epoch=epoch):
                    if epoch >= self._known.next_epoch:
                        self._outlet.send_end(epoch)
                        self._unsent = True
                case ReportLate():
                    if not self._marks.replaying:
                        self.report.late(effect)

    def _send(self, batch: MiniBatch) -> None:
        arrived = self._gate.arrived if self._gate is not None else None
        num_bytes = self._outlet.send_batch(batch, self._freshness.sent(self._now_ms(), arrived))
        if self._gate is not None:
            self._gate.sent(num_bytes)
        self.report.batch(batch, num_bytes)
        self._unsent = True

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
        two = len(self.inputs) > 1
        progress = Progress(
            version=VERSION_OF_TWO if two else VERSION,
            next_offset=self.core.position.interactions,
            next_outcome=self.core.position.outcomes if two else UNSET,
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
        self._freshness.committed(self._committed_ms)
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
        return cut_ref(self._marks, data, number, place, profiles_offset)

    def _keep_awake(self, backlog: Backlog, now_ms: int) -> None:
        """Write a mark for an input that has been silent for so long that others wait for it."""
        source, idle_ms = backlog.source, self._config.idle_ms
        # While it stays silent the other one should not wait for as long each time.
        pause_ms = idle_ms if len(self.inputs) == 1 else max(self._config.commit_every_ms, idle_ms // 10)
        silent = now_ms - backlog.record_ms >= idle_ms and now_ms - backlog.marked_ms >= pause_ms
        holds_up = self.core.held and self.core.watermark_of(source) == self.core.watermark_ms
        if not silent or not holds_up or backlog.head is not None:
            return
        backlog.marked_ms = now_ms
        # Outcomes follow the interactions, never the other way round: without an impression nothing waits for them.
        counting = [Input.INTERACTIONS] if source is Input.INTERACTIONS else list(Input)
        mark = idle_mark(
            self._marks,
            [self._backlogs[each].seen(self.core.max_time_of(each)) for each in counting],
            now_ms=now_ms,
            watermark_ms=self.core.watermark_of(source),
            lateness_ms=self._lateness_ms,
            about=source,
        )
        if mark is not None:
            self._decide([mark])
            self._apply_due()

    def _keep_up(self, now_ms: int) -> None:
        """Write a mark where another share of the sessions is to be shed; none is where output minds no trainer."""
        share = 0 if self._gate is None else self._gate.share(self.core.shed_share, now_ms)
        if share != self.core.shed_share:
            self._decide([shed_mark(self._marks, share)])
            self._apply_due()

    def _keep_fresh(self, now_ms: int) -> None:
        """Write a mark once what may leave has waited for long enough."""
        if self._freshness.is_over(self.core.num_ready, self.core.ready_since, now_ms):
            self._decide([fresh_mark(self._marks)])
            self._apply_due()
            self._freshness.begin(now_ms)

    def _judge_future(self, backlog: Backlog) -> None:
        """Write marks for records that lie in the future and of which nothing is known yet."""
        decoded, source = backlog.judge(), backlog.source
        if decoded is None:
            return
        verdicts: dict[int, int] = {}
        known, from_offset = self._marks.future(source), self._known.position[source]
        for offset, time_ms in zip(decoded.future.tolist(), decoded.future_ms.tolist(), strict=True):
            if offset >= from_offset and offset not in known:
                verdicts[offset] = min(time_ms, verdicts.get(offset, time_ms))
        if verdicts:
            self._decide(future_marks(self._marks, source, list(verdicts.items())))
            self._apply_due()

    def _expect_replayed(self) -> None:
        assert not self._marks.replaying, "a commit now would move progress backwards"
        if self.core.next_sequence < self._known.next_sequence:
            raise InvariantError(
                f"partition {self.partition}: {self._known.next_sequence} batches were emitted before offset "
                f"{self._known.next_offset}, but re-reading gives only {self.core.next_sequence}; "
                "the interactions topic, the clock topic or the cut was changed"
            )
