"""The composers: the thread in which the ranks agree on the next step, and make its tensors, ahead of training.

A round: everyone reports what waits; rank 0 chooses by the ordinary order (the ledger's, then the merge) and tells.
A step is handed to rank 0's loop when every rank has its part ready, so a step that a rank cannot prepare never begins.
Rounds go on while rank 0's queue is full or nothing waits: they are also how a rank says that it was told to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Queue
from threading import Event, Thread
from typing import Final

import msgspec
import numpy as np

from streams.errors import InvariantError
from streams.minibatch import MiniBatch
from trainer.drain import Drain
from trainer.order import Order
from trainer.ranks.channel import Channel, LostRankError
from trainer.ranks.local import Local
from trainer.ranks.merged import Merged
from trainer.ranks.messages import Decision, Report, Waiting
from trainer.ranks.part import EveryRanks, Mine, whole_of
from trainer.ready import Failure, Nothing, Prepared, Ready

_ROUND_S: Final = 0.01
"""Between two rounds in which nothing could be decided."""
_FULL_S: Final = 0.1
_STOP_S: Final = 30.0


class LeadingComposer:
    """Rank 0's: decides. `start`, then `next`; `stop` ends it on all ranks."""

    def __init__(
        self,
        channel: Channel,
        local: Local,
        order: Order,
        tasks: int,
        drain: Drain,
        depth: int,
        now_ms: Callable[[], int],
        fetch: Callable[[int], list[MiniBatch]],
    ) -> None:
        """`fetch`: the other ranks' mini-batches of the step of this number, in the loop's thread."""
        self._channel = channel
        self._local = local
        self._order = order
        self._tasks = tasks
        self._drain = drain
        self._now_ms = now_ms
        self._fetch = fetch
        self._ready = Ready(depth)
        self._stopping = Event()
        self._owes_answer = False
        self._number = 0
        self._reports: list[Report] = []
        self._thread = Thread(target=self._run, name="recd-composer", daemon=True)

    def start(self) -> None:
        """Begin to prepare."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and the followers'; what was prepared is forgotten."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def next(self, wait_ms: int) -> Prepared | Nothing:
        """The next step; what stands against it otherwise. Raises what went wrong on any rank."""
        return self._ready.next(wait_ms)

    def peek(self) -> Prepared | None:
        """The step that `next` will give, if it is ready by now."""
        return self._ready.peek()

    @property
    def duplicates(self) -> int:
        """Of all ranks, as of the last round."""
        return sum(report.duplicates for report in self._reports)

    @property
    def commit_failures(self) -> int:
        """Of all ranks, as of the last round."""
        return sum(report.commit_failures for report in self._reports)

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            self._compose()
        except Exception as error:  # noqa: BLE001  (surfaces in `next`: nothing is swallowed)
            failure = error
        if not isinstance(failure, LostRankError):
            with suppress(LostRankError):
                if not self._owes_answer:
                    self._channel.gather(b"")
                self._channel.tell(msgspec.msgpack.encode(Decision(over=True)))
        while failure is not None and not self._stopping.is_set() and not self._ready.put(Failure(failure), _FULL_S):
            pass

    def _compose(self) -> None:
        taken: list[Waiting] = []
        finished = False
        while not self._stopping.is_set():
            merged = Merged(self._listen(), self._now_ms())
            chosen = self._choose(merged)
            taken += chosen
            closes = bool(taken) and not self._order.must_wait()
            entries = tuple(each.entry for each in chosen)
            self._tell(Decision(taken=entries, closes=closes))
            self._local.take(entries)
            if closes:
                self._put(self._prepare(taken))
                taken, finished = [], False
            elif merged.view().finished and not taken:
                self._order.check_nothing_due()
                if not finished:
                    self._put(Nothing.MORE)
                finished = True
                self._stopping.wait(_FULL_S)
            elif not chosen:
                self._stopping.wait(_ROUND_S)

    def _choose(self, merged: Merged) -> list[Waiting]:
        chosen: list[Waiting] = []
        while (partition := self._order.next_partition(merged.view(), self._now_ms())) is not None:
            chosen.append(merged.take(partition))
            self._order.took(chosen[-1].entry)
        return chosen

    def _prepare(self, taken: Sequence[Waiting]) -> Prepared:
        """The step, once every rank has its part of it."""
        repeats = self._order.repeats
        self._order.close_step()
        self._number += 1
        mine = self._local.close()
        shares = [report.share for report in self._listen() if report.share is not None]
        self._tell(Decision())
        entries = tuple(each.entry for each in taken)
        return Prepared(
            entries=entries,
            batches=EveryRanks(mine, entries, partial(self._fetch, self._number)),
            tensors=whole_of(mine.tensors, shares, entries, self._tasks),
            appended_ms=np.concatenate([np.frombuffer(share.appended_ms, np.int64) for share in shares]),
            num_corrections=sum(share.corrections for share in shares),
            watermark_ms=min(each.watermark_ms for each in taken),
            num_sessions=sum(each.sessions for each in taken),
            wire_bytes=sum(each.num_bytes for each in taken),
            repeats=repeats,
        )

    def _put(self, ready: Prepared | Nothing) -> None:
        while not self._stopping.is_set() and not self._ready.put(ready, _FULL_S):
            self._listen()
            self._tell(Decision())

    def _listen(self) -> list[Report]:
        """Everyone's report. Raises what went wrong on a rank."""
        mine = self._local.report()
        heard = self._channel.gather(msgspec.msgpack.encode(mine))
        self._owes_answer = True
        self._reports = [mine, *(msgspec.msgpack.decode(each, type=Report) for each in heard[1:])]
        if self._local.error is not None:
            raise self._local.error
        for rank, report in enumerate(self._reports):
            if report.error:
                raise InvariantError(f"rank {rank}: {report.error}")
            if report.drain is not None:
                self._drain.request(report.drain)
        return self._reports

    def _tell(self, decision: Decision) -> None:
        self._channel.tell(msgspec.msgpack.encode(decision))
        self._owes_answer = False


class FollowingComposer:
    """Another rank's: makes its part of what rank 0 decided."""

    def __init__(self, channel: Channel, local: Local) -> None:
        self._channel = channel
        self._local = local
        self._parts: Queue[Mine] = Queue()
        self._thread = Thread(target=self._run, name="recd-composer", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end, which rank 0 tells."""
        self._thread.join(_STOP_S)

    def part(self) -> Mine:
        """This rank's part of the next step that rank 0 begins; it is ready by then."""
        return self._parts.get(timeout=_STOP_S)

    def _run(self) -> None:
        # A rank that is lost is noticed by the loop, too: there is nobody here to tell.
        with suppress(LostRankError):
            while True:
                self._channel.gather(msgspec.msgpack.encode(self._local.report()))
                decision = msgspec.msgpack.decode(self._channel.hear(), type=Decision)
                if decision.over:
                    return
                self._follow(decision)

    def _follow(self, decision: Decision) -> None:
        try:
            self._local.take(decision.taken)
            if decision.closes:
                self._parts.put(self._local.close())
        except Exception as error:  # noqa: BLE001  (rank 0 hears it in the next report, and says it for all)
            self._local.error = error
