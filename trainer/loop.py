"""The loop: take a step, write it down, train it, score it, save now and then, stop in an orderly way.

The commit order, in which a death between any two loses nothing and repeats nothing:
1. the step's line in the ledger, before the step;
2. the step: predict, score, learn (memory only);
3. positions and account move past it (memory only);
4. the ledger forced to the disk;
5. tensor files of the checkpoint;
6. its manifest and rename: the commit, all of weights, optimizer, metrics and positions in one act;
7. older checkpoints removed;
8. offsets committed to the group, progress published: for observers only.
An error never saves: a restart goes on from the last checkpoint, in the recorded order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from streams.metrics import Reporter
from trainer.account import Freshness
from trainer.checkpoint.manifest import Progress
from trainer.checkpoint.saver import Saver
from trainer.crash import Crash
from trainer.drain import Drain, Reason
from trainer.feed import Feed
from trainer.kept import Kept
from trainer.learner import Learner
from trainer.ledger import Line
from trainer.lineage import Lineage
from trainer.ports import Clock
from trainer.ready import Nothing, Prepared
from trainer.step import StepResult, Verdict
from trainer.summary import Run, Summary, summarize
from trainer.watcher import Watcher

_LOG = structlog.get_logger(__name__)
_IDLE_MS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """When a run ends by itself."""

    exit_at_end: bool = False
    """Stop when every partition has delivered its end record and everything before it is trained and saved."""
    max_steps: int | None = None
    """Stop after this many steps of this process."""


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What the loop reports to and is told by."""

    clock: Clock
    reporter: Reporter
    watcher: Watcher
    drain: Drain
    crash: Crash
    kept: Kept


class Trainer:
    """One process's training, from its checkpoint on. `run` once."""

    def __init__(
        self, feed: Feed, learner: Learner, lineage: Lineage, saver: Saver, around: Surroundings, options: RunOptions
    ) -> None:
        self._feed = feed
        self._learner = learner
        self._lineage = lineage
        self._saver = saver
        self._around = around
        self._options = options
        self._pending: tuple[Line, Prepared, StepResult] | None = None
        self._run = Run(begun_ns=around.clock.monotonic_ns(), restored_step=lineage.step, freshness=Freshness())

    def run(self) -> Summary:
        """Train until the end, a limit or a signal; then save. Raises what went wrong, having saved nothing more."""
        self._feed.start()
        try:
            reason = self._train()
            self._save_last()
        finally:
            self._feed.stop()
            self._saver.wait()
            self._lineage.close()
        return self._summary(reason)

    def _train(self) -> Reason:
        while True:
            if self._around.drain.reason is not None:
                return self._around.drain.reason
            if self._options.max_steps is not None and self._run.steps >= self._options.max_steps:
                return "max_steps"
            got = self._next()
            if isinstance(got, Prepared):
                self._step(got)
            elif got is Nothing.MORE and self._options.exit_at_end:
                return "end"
            self._save_when_due()
            self._around.watcher.see(self._summary)

    def _next(self) -> Prepared | Nothing:
        got = self._feed.next(0)
        if got is not Nothing.YET:
            return got
        # Nothing is ready: the verdict that was to be read a step later can be read now, at no cost.
        self._settle()
        begun_ns = self._around.clock.monotonic_ns()
        got = self._feed.next(_IDLE_MS)
        waited_ns = self._around.clock.monotonic_ns() - begun_ns
        self._run.queue_empty_ns += waited_ns
        self._around.reporter.count("recd_queue_empty_ms_total", waited_ns / 1e6)
        return got

    def _step(self, prepared: Prepared) -> None:
        begun_ns = self._around.clock.monotonic_ns()
        line = self._lineage.begin(prepared)  # 1
        self._around.crash("ledger_written")
        if (after := self._feed.peek()) is not None:
            self._learner.expect(after.tensors)
        result = self._learner.step(prepared.tensors, line.rng)  # 2
        self._around.crash("step_done")
        self._lineage.trained(line)  # 3
        self._settle()
        self._pending = (line, prepared, result)
        if not self._learner.is_late:
            self._settle()
        self._run.steps += 1
        spent_ns = self._around.clock.monotonic_ns() - begun_ns
        self._run.step_ns += spent_ns
        self._around.reporter.count("recd_steps_total")
        self._around.reporter.observe("recd_step_ms", spent_ns / 1e6)
        for name, rows in self._learner.moved().items():
            self._around.reporter.count(name, rows)

    def _settle(self) -> None:
        """Read the verdict on the last step, score it and account for it."""
        if self._pending is None:
            return
        (line, prepared, result), self._pending = self._pending, None
        if result.verdict() is Verdict.NOT_FINITE:
            self._keep(line, prepared, result)
        verdict = self._learner.settle(line.step, prepared.tensors, result)
        self._lineage.settle(line, prepared, verdict)
        self._run.settle(prepared, verdict, self._around.clock.now_ms(), self._around.reporter)

    def _keep(self, line: Line, prepared: Prepared, result: StepResult) -> None:
        """Before anything else: it may be the one step too many that stops the trainer."""
        offsets = [entry.offset for entry in prepared.entries]
        path = self._around.kept.keep(line.step, prepared.batches, offsets, result)
        _LOG.warning("step_not_finite", step=line.step, kept=str(path), remedy="recd inspect skipped")

    def _save_when_due(self) -> None:
        if (done := self._saver.poll()) is not None:
            self._committed(done)
        if self._saver.is_due(self._lineage.step):
            self._save()

    def _save(self) -> None:
        self._settle()
        progress = self._lineage.progress(self._around.clock.now_ms())  # 4
        done = self._saver.begin(progress, self._learner.state(), self._learner.touched())  # 5, 6, 7
        if done is not None:
            self._committed(done)

    def _save_last(self) -> None:
        self._settle()
        if (done := self._saver.finish()) is not None:
            self._committed(done)
        if self._lineage.step != self._saver.saved_step():
            self._save()
            if (done := self._saver.finish()) is not None:
                self._committed(done)

    def _committed(self, progress: Progress) -> None:
        self._feed.commit({partition: at.next_offset for partition, at in progress.positions.items()})  # 8
        self._around.watcher.saved(progress)
        self._around.crash("committed")

    def _summary(self, reason: Reason | None = None) -> Summary:
        return summarize(
            self._run, self._lineage, self._saver, self._feed, self._learner.report(), self._around.clock, reason
        )
