"""When a checkpoint is due, and its writing: at most one in flight, so that a step waits for the copy only.

Owns cadence (by steps and by the injected clock) and the writer's thread. An error of the writer surfaces at the
next `poll` or `finish`; it is never swallowed. What goes into a checkpoint is the loop's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread

from torch import Tensor

from streams.metrics import Reporter
from trainer.checkpoint.config import CheckpointConfig
from trainer.checkpoint.manifest import Manifest, Progress
from trainer.checkpoint.stage import I64, Shadow, stage
from trainer.checkpoint.store import prune, write
from trainer.crash import Crash
from trainer.ports import Clock


class Saver:
    """Writes the checkpoints of one lineage."""

    def __init__(
        self,
        config: CheckpointConfig,
        directory: Path,
        restored_step: int,
        check_lease: Callable[[], None],
        clock: Clock,
        reporter: Reporter,
        crash: Crash,
        scratch: Path | None = None,
    ) -> None:
        """`scratch`: folder for copies of what does not fit into memory."""
        self._config = config
        self._directory = directory
        self._check_lease = check_lease
        self._clock = clock
        self._reporter = reporter
        self._crash = crash
        self._scratch = scratch
        self._shadow: Shadow | None = None
        self._begun_step = restored_step
        self._begun_ms = clock.now_ms()
        self._writer: _Writer | None = None
        self.copy_ns = 0
        """Time that steps have waited for copies."""
        self.longest_copy_ns = 0
        """The longest that one step has waited."""
        self.write_ns = 0
        """Time that writing took, beside the steps where it runs in the background."""
        self.count = 0
        """Checkpoints that are complete."""

    def keep_copy(self, state: Mapping[str, Tensor]) -> None:
        """Copy everything now, before the first step, so that no step ever waits for more than the rows it names."""
        self._shadow = Shadow(state)

    def is_due(self, step: int) -> bool:
        """Whether to save now; never while one is being written, and never twice at one step."""
        if self._writer is not None or step == self._begun_step:
            return False
        waited_ms = self._clock.now_ms() - self._begun_ms
        return step - self._begun_step >= self._config.every_steps or waited_ms >= self._config.every_ms

    def begin(
        self, progress: Progress, state: Mapping[str, Tensor], touched: Mapping[str, I64] | None = None
    ) -> Progress | None:
        """Copy the state and write it. Returns the progress once it is complete: at once, or from a later `poll`.

        `touched`: tensor to the rows that have changed since the last call; with a kept copy only these are copied.
        """
        assert self._writer is None, "one checkpoint at a time"
        begun_ns = self._clock.monotonic_ns()
        staged = self._shadow.stage(state, touched or {}) if self._shadow is not None else stage(state, self._scratch)
        spent_ns = self._clock.monotonic_ns() - begun_ns
        self.copy_ns += spent_ns
        self.longest_copy_ns = max(self.longest_copy_ns, spent_ns)
        self._begun_step, self._begun_ms = progress.step, progress.created_ms
        self._writer = _Writer(progress, lambda: self._write(progress, staged))
        return None if self._config.background else self.finish()

    def poll(self) -> Progress | None:
        """Progress of a checkpoint that has become complete since the last call. Raises the writer's error."""
        return self.finish() if self._writer is not None and not self._writer.is_alive() else None

    def finish(self) -> Progress | None:
        """Wait for the one in flight; its progress, or None where there is none. Raises the writer's error."""
        writer, self._writer = self._writer, None
        if writer is None:
            return None
        writer.join()
        if writer.error is not None:
            raise writer.error
        self.count += 1
        return writer.progress

    def wait(self) -> None:
        """Let the one in flight end, whatever comes of it: the lease must outlive its writer."""
        if self._writer is not None:
            self._writer.join()

    def saved_step(self) -> int:
        """Step of the newest checkpoint, complete or in flight."""
        return self._begun_step

    def _write(self, progress: Progress, staged: Mapping[str, Tensor]) -> Manifest:
        begun_ns = self._clock.monotonic_ns()
        manifest = write(self._directory, progress, staged, self._config.shard_bytes, self._check_lease, self._crash)
        prune(self._directory, self._config.keep)
        self._crash("pruned")
        spent_ns = self._clock.monotonic_ns() - begun_ns
        self.write_ns += spent_ns
        self._reporter.observe("recd_checkpoint_ms", spent_ns / 1e6)
        self._reporter.gauge("recd_checkpoint_bytes", manifest.num_bytes)
        return manifest


class _Writer(Thread):
    """One save. Its error is kept for whoever asks."""

    def __init__(self, progress: Progress, work: Callable[[], object]) -> None:
        super().__init__(name="recd-checkpoint", daemon=True)
        self.progress = progress
        self.error: BaseException | None = None
        self._work = work
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001  (surfaces in the loop: nothing is swallowed)
            self.error = error
