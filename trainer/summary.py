"""What a run says of itself: running totals of the process, and the one object that the command line prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streams.metrics import Reporter
from trainer.account import Freshness
from trainer.checkpoint.saver import Saver
from trainer.drain import Reason
from trainer.feed import Feed
from trainer.lineage import Lineage
from trainer.ports import Clock
from trainer.ready import Prepared
from trainer.step import Verdict


@dataclass(slots=True, kw_only=True)
class Run:
    """Totals of this process. Those of the lineage are `Account`."""

    begun_ns: int
    restored_step: int
    freshness: Freshness
    steps: int = 0
    samples: int = 0
    step_ns: int = 0
    queue_empty_ns: int = 0

    def settle(self, prepared: Prepared, verdict: Verdict, now_ms: int, reporter: Reporter) -> None:
        """A step is done."""
        for table, ids in prepared.tensors.counts.out_of_range.items():
            reporter.count("recd_ids_out_of_range_total", ids, table=table)
        for feature, samples in prepared.tensors.counts.missing.items():
            reporter.count("recd_missing_rows_total", samples, feature=feature)
        if verdict is not Verdict.LEARNED:
            reporter.count("recd_skipped_batches_total", len(prepared.entries), reason=verdict.name.lower())
            return
        self.samples += prepared.num_samples
        reporter.count("recd_trained_samples_total", prepared.num_samples)
        reporter.count("recd_trained_corrections_total", prepared.num_corrections)
        known = prepared.appended_ms[prepared.appended_ms >= 0]
        if len(known):
            ages_ms = now_ms - known
            self.freshness.add(ages_ms)
            # One observation a step: a histogram call a sample would cost more than the step.
            reporter.observe("recd_freshness_ms", float(ages_ms.max()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One JSON object. `lineage_…` counts since the lineage began, the rest this process."""

    step: int
    lineage_samples: int
    lineage_skipped_samples: int
    lineage_corrected: int
    """Corrections learned from; `lineage_samples` is without them."""
    lineage_batches: int
    lineage_sessions: int
    lineage_skipped_steps: int
    lineage_wire_bytes: int
    lineage_ids: int
    lineage_ids_expanded: int
    watermark_ms: int
    epoch: int
    """Lease of this process: one more than the process before it."""
    restored_step: int
    """Step of the checkpoint it began from; 0 without one."""
    repeated_steps: int
    """Steps that an earlier process had trained after that checkpoint."""
    steps: int
    samples: int
    duplicates: int
    commit_failures: int
    freshness_ms: dict[str, int | None]
    """Append to step done: p50 and p99; None where no sample says when it was appended."""
    step_ms_mean: float
    queue_empty_ms: int
    checkpoints: int
    checkpoint_copy_ms: int
    """How long steps waited for copies, in all."""
    checkpoint_write_ms: int
    wall_ms: int
    samples_per_s: float
    metrics: Mapping[str, Any]
    """The evaluator's report: scored before learning, over the lineage."""
    exit_reason: Reason | None
    """None while it runs."""


def summarize(
    run: Run,
    lineage: Lineage,
    saver: Saver,
    feed: Feed,
    metrics: Mapping[str, Any],
    clock: Clock,
    reason: Reason | None,
) -> Summary:
    """The summary as of now."""
    account = lineage.account
    wall_ns = max(1, clock.monotonic_ns() - run.begun_ns)
    return Summary(
        step=lineage.step,
        lineage_samples=account.samples,
        lineage_skipped_samples=account.skipped,
        lineage_corrected=account.corrected,
        lineage_batches=account.batches,
        lineage_sessions=account.sessions,
        lineage_skipped_steps=account.skipped_steps,
        lineage_wire_bytes=account.wire_bytes,
        lineage_ids=account.ids,
        lineage_ids_expanded=account.ids_expanded,
        watermark_ms=lineage.watermark_ms,
        epoch=lineage.identity.epoch,
        restored_step=run.restored_step,
        repeated_steps=lineage.repeated_steps,
        steps=run.steps,
        samples=run.samples,
        duplicates=feed.duplicates,
        commit_failures=feed.commit_failures,
        freshness_ms={"p50": run.freshness.percentile(50), "p99": run.freshness.percentile(99)},
        step_ms_mean=run.step_ns / 1e6 / max(1, run.steps),
        queue_empty_ms=run.queue_empty_ns // 1_000_000,
        checkpoints=saver.count,
        checkpoint_copy_ms=saver.copy_ns // 1_000_000,
        checkpoint_write_ms=saver.write_ns // 1_000_000,
        wall_ms=wall_ns // 1_000_000,
        samples_per_s=run.samples * 1e9 / wall_ns,
        metrics=metrics,
        exit_reason=reason,
    )
