"""Who looks on while the trainer runs: a person, a program, Prometheus and Redis.

Owns how often each is told and in which form. Never delays training for them: a summary is made at most once a
second, and a Redis that does not answer is logged and passed over, since nothing decides by what is there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

import msgspec

from infra.clock import Clock
from infra.concerns import concerns
from infra.logging import logger
from state.progress import TrainerProgress, publish
from state.store import Store
from streams.errors import RetryableError
from streams.metrics import Name, Reporter
from trainer.checkpoint.manifest import Progress
from trainer.summary import Summary

_LOG = logger(__name__)
EVERY_MS: Final = 1_000
PERSON_EVERY: Final = 5
"""A person is told at every fifth look."""
_SCORES: Final[dict[str, Name]] = {"ne": "recd_ne", "auc": "recd_auc", "calibration": "recd_calibration"}


class Watch:
    """A Watcher of the trainer."""

    def __init__(self, clock: Clock, reporter: Reporter, store: Store, stream: str, *, as_json: bool) -> None:
        self._clock = clock
        self._reporter = reporter
        self._store = store
        self._stream = stream
        self._as_json = as_json
        self._next_ms = clock.monotonic_ms() + EVERY_MS
        self._looks = 0
        self._told_steps = -1
        self._warned: set[tuple[str, str]] = set()
        self._saved_ms = clock.monotonic_ms()

    def see(self, summary: Callable[[], Summary]) -> None:
        """Look once a second."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + EVERY_MS
        self._looks += 1
        seen = summary()
        self._reporter.gauge("recd_checkpoint_age_ms", now_ms - self._saved_ms)
        report_scores(self._reporter, seen)
        self._warn(seen)
        if self._as_json:
            put({"event": "progress", **asdict(seen)})
        elif self._looks % PERSON_EVERY == 0:
            say(line(seen) if seen.steps != self._told_steps else f"step {seen.step}: waiting for mini-batches")
            self._told_steps = seen.steps

    def _warn(self, seen: Summary) -> None:
        """Say each concern once."""
        for which, sentence in concerns(seen.metrics).items():
            if which not in self._warned:
                self._warned.add(which)
                _LOG.warning(which[1], task=which[0], remedy=sentence)

    def saved(self, progress: Progress) -> None:
        """Publish what other processes may rely on."""
        self._saved_ms = self._clock.monotonic_ms()
        if self._as_json:
            put({"event": "checkpoint", "step": progress.step, "lineage_samples": progress.account.samples})
        record = TrainerProgress(
            next_offsets={partition: at.next_offset for partition, at in progress.positions.items()},
            next_sequences={partition: at.next_sequence for partition, at in progress.positions.items()},
            step=progress.step,
            samples=progress.account.samples,
            published_ms=self._clock.now_ms(),
        )
        try:
            publish(self._store, self._stream, record)
        except RetryableError as error:
            _LOG.warning("progress_not_published", error=str(error), remedy="the next checkpoint publishes again")


def report_scores(reporter: Reporter, summary: Summary) -> None:
    """The evaluator's values that are defined; an undefined one leaves a gap, never a number."""
    for task, scopes in summary.metrics.items():
        for scope in ("window", "lifetime"):
            for key, name in _SCORES.items():
                value = scopes[scope][key]
                reporter.gauge(name, float("nan") if value is None else value, task=task, scope=scope)


def line(summary: Summary) -> str:
    """One line for a person."""
    scores = ", ".join(
        f"{task} NE {'-' if value is None else f'{value:.4f}'}"
        for task, scopes in summary.metrics.items()
        for value in (scopes["window"]["ne"],)
    )
    return (
        f"step {summary.step}: {summary.lineage_samples} samples trained, {summary.samples_per_s:.0f}/s, "
        f"freshness p99 {summary.freshness_ms['p99']} ms, {scores}"
    )


def put(record: dict[str, object]) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(f"{msgspec.json.encode(record).decode()}\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """One line for a person, on stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
