"""PartitionCore: events and clock marks of one partition in, effects out.

Owns the order of the steps and the account. Decides everything; performs nothing. The same records and marks give
the same effects, whatever the poll boundaries, and a core restored from a cut goes on as if it had never stopped.
No clock, no randomness, no Kafka.

One event walks: arrivals (late? duplicate?) → merge (whose turn, of both inputs?) → windower (which session? what
history?) → packer (which batch?).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from sessionizer import cut
from sessionizer.account import Account
from sessionizer.arrivals import ACCEPTED, DUPLICATE, LATE, MAX_MS, REPLACING, Admitted
from sessionizer.compatible import VERSION, VERSION_OF_TWO, check, fingerprint
from sessionizer.config import BatchConfig, JoinConfig, ProfilesConfig, SessionConfig
from sessionizer.corrections import Memory
from sessionizer.effects import Effect, EmitBatch, EndReached, ReportLate
from sessionizer.history import Histories
from sessionizer.intake import Intake, runs, stretch
from sessionizer.join import Joins
from sessionizer.leaving import samples_of
from sessionizer.packer import Clustered, Packer
from sessionizer.rows import Rows
from sessionizer.sampling import sampled
from sessionizer.shedding import without_shed
from sessionizer.windower import Windower
from state.profiles import decode, encode, histories_fingerprint
from state.store import Missing
from streams.clock_mark import ClockMark, MarkKind
from streams.errors import InvariantError
from streams.events.event import EventBatch
from streams.events.schema import EventKind, EventSchema
from streams.inputs import Input, Position
from streams.minibatch import MiniBatch
from streams.stage import Stage


class PartitionCore:
    """Sessions and batches of one partition of the interactions topic, and of the outcomes' if they have one."""

    def __init__(
        self,
        schema: EventSchema,
        sessions: SessionConfig,
        batches: BatchConfig,
        partition: int,
        joins: JoinConfig | None = None,
        profiles: ProfilesConfig | None = None,
        *,
        with_outcomes: bool = False,
    ) -> None:
        joins = joins or JoinConfig()
        self._profiles = profiles or ProfilesConfig()
        self.partition = partition
        self.account = Account()
        self.position = Position()
        self.epoch = 0
        self.shed_share = 0
        """Of the sessions that leave, in parts of `WHOLE`."""
        self.fingerprint = fingerprint(schema, sessions, batches, joins, with_outcomes=with_outcomes)
        self._schema = schema
        self._lore = histories_fingerprint(schema.histories)
        self._sampling = joins
        self._fresh_parts = batches.fresh == "parts"
        self._rows = Rows(schema, corrects=joins.policy == "correct")
        self._intake = Intake(sessions, self._rows, with_outcomes=with_outcomes)
        self._histories = Histories(schema.histories)
        self._joins = Joins(joins, schema.labels)
        self._memory = Memory(joins, schema.labels)
        self._windower = Windower(sessions, self._histories, self._joins, self._memory)
        self._packer = Packer(schema, partition, batches, joins.negative_rate)

    def feed(
        self, events: EventBatch, *, rejected: int, next_offset: int, source: Input = Input.INTERACTIONS
    ) -> list[Effect]:
        """Events of one poll of one input in offset order; `rejected` more records of it could not be used.

        Its users must be `unknown` no longer. Tombstones may only be among the interactions.
        """
        self._expect_advance(source, next_offset)
        if len(unknown := self.unknown(events)):
            raise InvariantError(f"events of {len(unknown)} users were fed whose profiles were not loaded")
        self.account.events += len(events) + rejected
        self.account.dead_lettered += rejected
        effects: list[Effect] = []
        start = 0
        erasing = events.kind == EventKind.TOMBSTONE
        for first, last in runs(erasing):
            effects += self._take(stretch(events, start, first), source)
            self.account.erased += self._intake.erase(np.unique(events.user[first:last]))
            effects += self._catch_up()
            self.account.tombstones += last - first
            start = last
        effects += self._take(stretch(events, start, len(events)), source)
        self.position = self.position.moved(source, next_offset)
        self._balance()
        return effects

    def unknown(self, events: EventBatch) -> npt.NDArray[np.int64]:
        """Users of these events whose profiles have to be loaded first; none where profiles are not kept outside."""
        if not self._profiles.external or not len(events):
            return np.zeros(0, np.int64)
        return self._windower.unknown(np.unique(events.user))

    def load_profiles(self, users: npt.NDArray[np.int64], values: Sequence[bytes | Missing]) -> None:
        """Take in unknown users with their profiles as bytes; a missing one is that of a new user."""
        self._windower.settle(decode(users, values, self._lore, len(self._schema.histories)))

    def changed_profiles(self) -> dict[int, bytes | None]:
        """Profiles as bytes that have changed since the last call, which is before each cut; None: nothing is left."""
        changed = self._windower.changed()
        values = encode(changed, self._lore, self.partition)
        told = zip(changed.user.tolist(), values, changed.empty.tolist(), strict=True)
        return {user: None if empty else value for user, value, empty in told}

    def evict(self) -> None:
        """Let go of users beyond `max_users_in_memory`, once their changed profiles are in safety."""
        if self._profiles.external:
            self._windower.evict(self._profiles.max_users_in_memory, self._rows, self._intake.erasures.users)

    def _take(self, events: EventBatch, source: Input) -> list[Effect]:
        """Events none of which erases a user."""
        if not len(events):
            return []
        effects: list[Effect] = []
        admitted = self._admit(events, source)
        late = admitted.verdict == LATE
        if late.any():
            effects.append(ReportLate(self.partition, events.offset[late], admitted.late_by_ms[late]))
        return effects + self._catch_up()

    def _catch_up(self) -> list[Effect]:
        """Event time reaches the watermark; erasures act on the way, each at its own moment."""
        watermark_ms = self.watermark_ms
        effects = self._erase_until(watermark_ms)
        return effects + self._emit(
            self._pack(self._windower.advance(self._intake.rows_before(watermark_ms), self._rows, watermark_ms))
        )

    def _erase_until(self, reached_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        while (at_ms := self._intake.erasures.next_ms(reached_ms)) is not None:
            closings = self._windower.advance(self._intake.rows_before(at_ms), self._rows, at_ms)
            effects += self._emit(self._pack(closings))
            self._erase(self._intake.erasures.take(at_ms), at_ms)
        return effects

    def _erase(self, users: npt.NDArray[np.int64], before_ms: int) -> None:
        """Forget these users and everything of theirs before this time that has not been emitted."""
        theirs = self._intake.rows_of(users, before_ms)
        self._windower.erase(users, self._rows.marked(theirs))
        self.account.erased += self._intake.forget(theirs) + self._packer.erase(users)

    def apply(self, mark: ClockMark) -> list[Effect]:
        """A decision of the wall clock whose turn it is."""
        if mark.partition != self.partition or mark.after != self.position:
            raise InvariantError(f"{mark} was applied to partition {self.partition} at {self.position}")
        match mark.kind:
            case MarkKind.IDLE:
                self._intake.merge.advance(mark.input, mark.value_ms)
                effects = self._catch_up()
                # Silence fills no batch: what waits for company alone would wait for ever.
                held = len(self._rows) - len(self._memory)
                return effects if held else effects + self._emit(self._packer.flush())
            case MarkKind.END:
                self._intake.merge.end_epoch()
                ended = self._erase_until(MAX_MS)
                closings = self._windower.end_epoch(self._intake.rows_before(MAX_MS), self._rows)
                ended += self._emit(self._pack(closings) + self._packer.flush())
                self.epoch += 1
                self._balance()
                return [*ended, EndReached(self.partition, self.epoch - 1, self.next_offset)]
            case MarkKind.FRESH:
                effects = self._emit(self._send_ripe() + self._packer.flush())
                self._balance()
                return effects
            case MarkKind.SHED:
                self.shed_share = mark.shed_share
                return []
            case MarkKind.FUTURE:
                return []  # The shell rejects the record itself; `feed` counts it.

    def _admit(self, events: EventBatch, source: Input) -> Admitted:
        names = self._rows.reserve(len(events))
        admitted = self._intake.merge.admit(source, events, names)
        kept = (admitted.verdict == ACCEPTED) | (admitted.verdict == REPLACING)
        self._rows.add(events if kept.all() else events.take(np.flatnonzero(kept)), names[kept])
        self._rows.give_back(names[~kept])
        self._count(events.kind[kept], 1)
        if len(admitted.replaced):
            self._count(self._rows.keys["kind"][admitted.replaced], -1)
            self._rows.free(admitted.replaced)
        twice = (admitted.verdict == DUPLICATE) | (admitted.verdict == REPLACING)
        self.account.duplicates += int(np.count_nonzero(twice))
        self.account.late += int(np.count_nonzero(admitted.verdict == LATE))
        return admitted

    def _send_ripe(self) -> list[MiniBatch]:
        if not self._fresh_parts:
            return []
        return self._pack(self._windower.send_ripe(self._rows, self.watermark_ms))

    def _pack(self, closings: npt.NDArray[np.void]) -> list[MiniBatch]:
        """What leaves, and what corrects samples that have left."""
        rows, corrections = self._rows, self._memory.take_corrections(self._rows.sessions)
        batches: list[MiniBatch] = []
        leaving = self._windower.rows_of(closings, rows)
        kept, shown, corrections = without_shed(closings, leaving, corrections, rows, self.shed_share)
        if len(kept) or len(corrections):
            labels = self._schema.labels
            samples = samples_of(kept, shown, corrections, rows, self._histories, self._memory, labels)
            trained = sampled(self._sampling, samples)
            batches = self._packer.add(trained)
            self.account.sampled_out += len(samples) - len(trained)
        rows.free(self._windower.release(closings, leaving, rows))
        self.account.shed += len(leaving) - len(shown)
        self.account.sessions += len(kept)
        self.account.sessions_cut += int(np.count_nonzero(kept["cut"]))
        return batches

    def _emit(self, batches: list[MiniBatch]) -> list[Effect]:
        corrected = sum(int(np.count_nonzero(batch.stages == Stage.CORRECTION)) for batch in batches)
        self.account.corrected += corrected
        self.account.emitted += sum(map(len, batches)) - corrected
        self.account.batches += len(batches)
        return [EmitBatch(batch) for batch in batches]

    def _balance(self) -> None:
        for name, count in self._joins.counts.items():
            setattr(self.account, name, count)
        self.account.forgotten = self._memory.num_capped
        self.account.check(self.held)

    def _count(self, kinds: npt.NDArray[np.uint8] | npt.NDArray[np.int32], by: int) -> None:
        self.account.impressions += by * int(np.count_nonzero(kinds == EventKind.IMPRESSION))
        self.account.labelled += by * int(np.count_nonzero(kinds == EventKind.LABELLED))
        self.account.outcomes += by * int(np.count_nonzero(kinds == EventKind.OUTCOME))

    def _expect_advance(self, source: Input, next_offset: int) -> None:
        if next_offset < self.position[source]:
            raise InvariantError(
                f"partition {self.partition} of the {source.name.lower()} was read up to {self.position[source]}, now "
                f"records before {next_offset} came; positions must come from the cut"
            )

    @property
    def next_offset(self) -> int:
        """Next offset of the interactions."""
        return self.position.interactions

    @property
    def next_sequence(self) -> int:
        """Sequence of the next batch."""
        return self._packer.next_sequence

    @property
    def watermark_ms(self) -> int:
        """Event time up to which (exclusive) the partition is complete: the smaller one of its inputs'."""
        return self._intake.merge.watermark_ms

    def watermark_of(self, source: Input) -> int:
        """Event time up to which (exclusive) one input is complete."""
        return self._intake.merge.arrivals[source].watermark_ms

    def max_time_of(self, source: Input) -> int:
        """Latest event time of one input in this epoch; MIN_MS before the first event."""
        return self._intake.merge.arrivals[source].max_time_ms

    @property
    def has_outcomes(self) -> bool:
        """Whether it reads outcomes of their own topic."""
        return len(self._intake.merge.arrivals) > 1

    def num_early(self, source: Input) -> int:
        """Events of one input that wait for the other one only."""
        return self._intake.merge.num_early(source)

    @property
    def held(self) -> int:
        """Samples accepted but not in an emitted batch; those that may be corrected have been in one."""
        return len(self._rows) - self._rows.num_outcomes - len(self._memory) + self._packer.num_samples

    @property
    def num_remembered(self) -> int:
        """Samples that have left and may be corrected."""
        return len(self._memory)

    @property
    def num_ready(self) -> int:
        """What could be in a batch that is not full; under `fresh = "parts"`, what perhaps could."""
        corrections = len(self._packer) - self._packer.num_samples
        return self.held + corrections if self._fresh_parts else len(self._packer)

    @property
    def ready_since(self) -> int:
        """Changes whenever all that was ready has gone into a batch."""
        return 0 if self._fresh_parts else self._packer.next_sequence

    @property
    def smallest_held_offset(self) -> int | None:
        """Offset of the earliest record that is still held, None when nothing is."""
        pending = self._packer.pending
        offsets = [self._rows.smallest_offset, int(pending.events.offset.min()) if pending is not None else None]
        return min((offset for offset in offsets if offset is not None), default=None)

    @property
    def num_open_sessions(self) -> int:
        """Sessions that may still grow."""
        return self._windower.num_open_sessions

    @property
    def num_waiting_sessions(self) -> int:
        """Sessions that are over and wait for their labels."""
        return self._windower.num_waiting_sessions

    @property
    def num_users(self) -> int:
        """Users that are remembered in memory."""
        return self._windower.num_users

    @property
    def label_delays(self) -> npt.NDArray[np.int64]:
        """Outcomes by how long after their impression they happened: below 1 ms, below 2, 4, 8 and so on."""
        return self._joins.delays

    def cut(self) -> bytes:
        """Snapshot: `restore` goes on from here."""
        pending = self._packer.pending
        header = {
            "version": VERSION_OF_TWO if self.has_outcomes else VERSION,
            "fingerprint": self.fingerprint,
            "partition": self.partition,
            "next_offset": self.position.interactions,
            "next_outcome": self.position.outcomes,
            "next_sequence": self._packer.next_sequence,
            "epoch": self.epoch,
            "account": msgspec.to_builtins(self.account),
            "held": len(self._rows) + len(self._packer),
            "histories": self._histories.fingerprint,
            "profiles": self._profiles.store,
            "shed_share": self.shed_share,
        }
        arrays = self._intake.arrays() | cut.prefixed("rows", self._rows.arrays())
        windower, histories = self._windower.arrays(), self._histories.arrays()
        if self._profiles.external:
            windower, histories, tips = self._windower.arrays_of_busy(self._rows, self._intake.erasures.users)
            arrays["rows.tips"] = tips[self._rows.live]
        arrays |= cut.prefixed("windower", windower) | cut.prefixed("joins", self._joins.arrays())
        arrays |= cut.prefixed("histories", histories)
        if pending is not None:
            arrays |= cut.prefixed("pending", pending.arrays())
        return cut.encode(header, arrays)

    @classmethod
    def restore(
        cls,
        schema: EventSchema,
        sessions: SessionConfig,
        batches: BatchConfig,
        data: bytes,
        joins: JoinConfig | None = None,
        profiles: ProfilesConfig | None = None,
        *,
        with_outcomes: bool = False,
    ) -> Self:
        """A core as it was when `cut` was called.

        Under another configuration only what nothing depends on is taken over, and only if no sample is held (after
        an end mark): positions, the account, known ids, and histories unless they changed themselves. Otherwise
        ConfigError.
        """
        header, arrays = cut.decode(data)
        core = cls(schema, sessions, batches, header["partition"], joins, profiles, with_outcomes=with_outcomes)
        check(header, core.fingerprint, external=core._profiles.external)
        core.position, core.epoch = Position(header["next_offset"], header.get("next_outcome", 0)), header["epoch"]
        core.account = msgspec.convert(header["account"], Account)
        core._packer.next_sequence, core.shed_share = header["next_sequence"], header.get("shed_share", 0)
        core._intake.restore(arrays)
        if header["histories"] == core._histories.fingerprint:
            core._windower.restore(cut.under("windower", arrays))
            core._histories.restore(cut.under("histories", arrays))
            if header["profiles"] != core._profiles.store:
                core._windower.change_all()
        core._joins.restore(cut.under("joins", arrays))
        if header["held"]:
            pending = cut.under("pending", arrays)
            core._rows.restore(cut.under("rows", arrays))
            core._packer.pending = Clustered.restore(pending, len(schema.histories)) if pending else None
        return core
