"""Names, kinds, units and meanings of everything recd reports, and the protocol through which parts report.

Owns the list; the documentation's table is generated from it. Never talks to a metrics library: `infra.metrics`
implements `Reporter`. No label ever holds a user, item or session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

Kind = Literal["counter", "gauge", "histogram"]

Name = Literal[
    "recd_events_total",
    "recd_dead_letters_total",
    "recd_late_by_ms",
    "recd_outcomes_total",
    "recd_outcomes_by_delay_total",
    "recd_samples_left_out_total",
    "recd_open_sessions",
    "recd_waiting_sessions",
    "recd_corrections_total",
    "recd_forgotten_samples_total",
    "recd_held_samples",
    "recd_remembered_samples",
    "recd_watermark_ms",
    "recd_users_in_memory",
    "recd_profiles_read_total",
    "recd_profiles_written_total",
    "recd_profile_failures_total",
    "recd_profile_repairs_total",
    "recd_profile_repair_left",
    "recd_batches_total",
    "recd_samples_total",
    "recd_sessions_total",
    "recd_wire_bytes_total",
    "recd_dedup_factor",
    "recd_commit_failures_total",
    "recd_rebalances_total",
    "recd_fetch_lag_events",
    "recd_outcomes_lag_events",
    "recd_outcomes_behind_ms",
    "recd_held_events",
    "recd_ahead_bytes",
    "recd_blocked_ms_total",
    "recd_shed_share",
    "recd_fresh_target_ms",
    "recd_fresh_wait_ms",
    "recd_fresh_delay_ms",
    "recd_trained_samples_total",
    "recd_trained_corrections_total",
    "recd_steps_total",
    "recd_skipped_batches_total",
    "recd_step_ms",
    "recd_freshness_ms",
    "recd_queue_empty_ms_total",
    "recd_ne",
    "recd_auc",
    "recd_calibration",
    "recd_ids_out_of_range_total",
    "recd_cache_distinct_rows_total",
    "recd_cache_asked_ids_total",
    "recd_cache_missing_rows_total",
    "recd_cache_ahead_rows_total",
    "recd_cache_evicted_rows_total",
    "recd_missing_rows_total",
    "recd_checkpoint_ms",
    "recd_checkpoint_bytes",
    "recd_checkpoint_age_ms",
]


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the reference."""

    kind: Kind
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()


METRICS: Final[dict[Name, Metric]] = {
    "recd_events_total": Metric("counter", "events", "Events read, by what became of each", ("partition", "account")),
    "recd_dead_letters_total": Metric("counter", "events", "Records sent to the dead-letter topic", ("reason",)),
    "recd_late_by_ms": Metric("histogram", "ms", "How far behind its partition's watermark a late event was"),
    "recd_outcomes_total": Metric(
        "counter",
        "outcomes",
        "Outcomes in messages of their own: joined, settled (no longer needed), missed (too late) or orphans",
        ("partition", "fate"),
    ),
    "recd_outcomes_by_delay_total": Metric(
        "counter",
        "outcomes",
        "Outcomes by how long after their impression they happened: below so many ms, and not below half of that",
        ("below_ms",),
    ),
    "recd_samples_left_out_total": Metric(
        "counter",
        "samples",
        "Samples that are not emitted on purpose: sampled_out (negative_rate), shed (worker.when_ahead) or erased "
        "(by a tombstone)",
        ("partition", "reason"),
    ),
    "recd_waiting_sessions": Metric(
        "gauge", "sessions", "Sessions that are over and wait for their labels", ("partition",)
    ),
    "recd_open_sessions": Metric("gauge", "sessions", "Sessions that may still grow", ("partition",)),
    "recd_held_samples": Metric("gauge", "samples", "Samples read but not yet in an emitted batch", ("partition",)),
    "recd_remembered_samples": Metric(
        "gauge", "samples", "Samples that have left and may be corrected (join.policy = correct)", ("partition",)
    ),
    "recd_corrections_total": Metric("counter", "samples", "Corrections in emitted mini-batches", ("partition",)),
    "recd_forgotten_samples_total": Metric(
        "counter",
        "samples",
        "Samples that session.max_held_samples made impossible to correct before their window was over",
        ("partition",),
    ),
    "recd_watermark_ms": Metric("gauge", "ms", "Event time up to which a partition is complete", ("partition",)),
    "recd_users_in_memory": Metric("gauge", "users", "Users whose profile is in memory", ("partition",)),
    "recd_profiles_read_total": Metric("counter", "profiles", "Profiles read from the store", ("partition",)),
    "recd_profiles_written_total": Metric("counter", "profiles", "Profiles written to the store", ("partition",)),
    "recd_profile_failures_total": Metric(
        "counter",
        "failures",
        "Times that the store of profiles gave no answer; the partition waits and asks again",
        ("partition",),
    ),
    "recd_profile_repairs_total": Metric(
        "counter", "repairs", "Working copies of profiles repaired from the changelog", ("partition",)
    ),
    "recd_profile_repair_left": Metric(
        "gauge", "offsets", "Offsets of the changelog that a repair has still to read", ("partition",)
    ),
    "recd_batches_total": Metric("counter", "batches", "Mini-batches emitted", ("partition",)),
    "recd_samples_total": Metric(
        "counter", "samples", "Samples in emitted mini-batches, corrections left out", ("partition",)
    ),
    "recd_sessions_total": Metric("counter", "sessions", "Sessions emitted, whole or as a part", ("partition", "cut")),
    "recd_wire_bytes_total": Metric("counter", "bytes", "Size of emitted mini-batches", ("partition",)),
    "recd_dedup_factor": Metric("gauge", "ratio", "Values before / after deduplication, last batch", ("group",)),
    "recd_commit_failures_total": Metric("counter", "commits", "Transactions or offset commits that failed"),
    "recd_rebalances_total": Metric("counter", "rebalances", "Assignments received by this process"),
    "recd_fetch_lag_events": Metric(
        "gauge", "events", "End of the partition minus next offset to read", ("partition",)
    ),
    "recd_outcomes_lag_events": Metric(
        "gauge", "events", "The same of the outcomes, where they have a topic of their own", ("partition",)
    ),
    "recd_outcomes_behind_ms": Metric(
        "gauge", "ms", "Watermark of the interactions minus that of the outcomes in their own topic", ("partition",)
    ),
    "recd_held_events": Metric("gauge", "events", "Next offset minus smallest offset still held", ("partition",)),
    "recd_ahead_bytes": Metric(
        "gauge",
        "bytes",
        "Mini-batches that no checkpoint of the trainer has yet, counted no further than to where output waits",
        ("partition",),
    ),
    "recd_blocked_ms_total": Metric(
        "counter", "ms", "Time that output has waited for the trainer (worker.max_ahead_bytes)", ("partition",)
    ),
    "recd_shed_share": Metric(
        "gauge",
        "ratio",
        "Share of the sessions that leave without being emitted, since the trainer is behind (worker.when_ahead)",
        ("partition",),
    ),
    "recd_fresh_target_ms": Metric("gauge", "ms", "batch.target_fresh_ms", ("partition",)),
    "recd_fresh_wait_ms": Metric(
        "gauge",
        "ms",
        "How long samples that may leave wait for their mini-batch to fill: what the delay leaves of the target, a "
        "tenth of it at least",
        ("partition",),
    ),
    "recd_fresh_delay_ms": Metric(
        "gauge",
        "ms",
        "What 19 of 20 mini-batches do not exceed from when they leave to when they arrive; with the wait, more than "
        "the target if that is missed",
        ("partition",),
    ),
    "recd_trained_samples_total": Metric("counter", "samples", "Samples the model has learned from"),
    "recd_trained_corrections_total": Metric(
        "counter", "samples", "Corrections the model has learned from; their samples were counted before"
    ),
    "recd_steps_total": Metric("counter", "steps", "Optimizer steps"),
    "recd_skipped_batches_total": Metric("counter", "batches", "Batches that changed nothing", ("reason",)),
    "recd_step_ms": Metric("histogram", "ms", "Time of one step: predict, score, learn"),
    "recd_freshness_ms": Metric("histogram", "ms", "From the append of an event to the end of its step"),
    "recd_queue_empty_ms_total": Metric("counter", "ms", "Time the trainer waited for a batch"),
    "recd_ne": Metric(
        "gauge",
        "ratio",
        "Normalized entropy, scored before learning; of the stream as it happened unless train.correct_sampling is off",
        ("task", "scope"),
    ),
    "recd_auc": Metric("gauge", "ratio", "Area under the ROC curve, scored before learning", ("task", "scope")),
    "recd_calibration": Metric(
        "gauge", "ratio", "Mean prediction / mean label, of the same stream as NE", ("task", "scope")
    ),
    "recd_ids_out_of_range_total": Metric("counter", "ids", "Ids that went to the declared row", ("table",)),
    "recd_cache_distinct_rows_total": Metric(
        "counter", "rows", "Distinct table rows that steps needed (train.hot_rows)"
    ),
    "recd_cache_missing_rows_total": Metric("counter", "rows", "Of these, rows that came from the file of cold ones"),
    "recd_cache_asked_ids_total": Metric("counter", "ids", "Ids looked up where most rows are in a file"),
    "recd_cache_ahead_rows_total": Metric(
        "counter", "rows", "Of these, rows that were read while the step before was computed: nobody waited for them"
    ),
    "recd_cache_evicted_rows_total": Metric("counter", "rows", "Rows that went back to that file to make room"),
    "recd_missing_rows_total": Metric(
        "counter", "samples", "Samples whose row was empty and became the declared id", ("feature",)
    ),
    "recd_checkpoint_ms": Metric("histogram", "ms", "Time to write one checkpoint"),
    "recd_checkpoint_bytes": Metric("gauge", "bytes", "Size of the last checkpoint"),
    "recd_checkpoint_age_ms": Metric("gauge", "ms", "Time since the last checkpoint was complete"),
}


class Reporter(Protocol):
    """Where parts report to. Calls never fail and never block."""

    def count(self, name: Name, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""

    def gauge(self, name: Name, value: float, **labels: str) -> None:
        """Set a gauge."""

    def observe(self, name: Name, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""

    def forget(self, **labels: str) -> None:
        """Drop every series with these labels: a partition that moved away must not stay on a chart."""


class Silent:
    """A Reporter that reports nowhere."""

    def count(self, name: Name, amount: float = 1, **labels: str) -> None:
        pass

    def gauge(self, name: Name, value: float, **labels: str) -> None:
        pass

    def observe(self, name: Name, value: float, **labels: str) -> None:
        pass

    def forget(self, **labels: str) -> None:
        pass
