"""What a partition reports about itself.

Owns the translation from accounts, batches and cores to metrics. Never decides anything and never fails.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from sessionizer.account import Account
from sessionizer.core import PartitionCore
from sessionizer.effects import ReportLate
from sessionizer.join import DELAY_BUCKETS
from sessionizer.steering import Steering
from streams.clock_mark import WHOLE
from streams.events.record import Rejected
from streams.inputs import Input
from streams.metrics import Name, Reporter
from streams.minibatch import MiniBatch
from streams.stage import Stage

_STATE_EVERY_MS = 1_000
_FATES = {"joined": "joined", "settled": "settled", "missed": "missed", "orphans": "orphan"}
_CORRECTIONS: Final[dict[str, Name]] = {
    "corrected": "recd_corrections_total",
    "forgotten": "recd_forgotten_samples_total",
}
_ACCOUNTS = ("impressions", "labelled", "outcomes", "tombstones", "duplicates", "late", "dead_lettered")


class PartitionReport:
    """The metrics of one partition."""

    def __init__(self, reporter: Reporter, partition: int) -> None:
        self._reporter = reporter
        self._label = str(partition)
        self._account = Account()
        self._state_ms = 0
        self._counted = np.zeros(DELAY_BUCKETS, np.int64)

    def start(self, core: PartitionCore) -> None:
        """Count from here: what is in the core's account was counted before."""
        self._account = Account() + core.account
        self._counted = core.label_delays.copy()

    def account(self, account: Account) -> None:
        """What became of the events since the last call."""
        for name in _ACCOUNTS:
            amount = getattr(account, name) - getattr(self._account, name)
            if amount > 0:
                self._reporter.count("recd_events_total", amount, partition=self._label, account=name)
        for name, fate in _FATES.items():
            amount = getattr(account, name) - getattr(self._account, name)
            if amount > 0:
                self._reporter.count("recd_outcomes_total", amount, partition=self._label, fate=fate)
        for reason in ("sampled_out", "shed", "erased"):
            amount = getattr(account, reason) - getattr(self._account, reason)
            if amount > 0:
                self._reporter.count("recd_samples_left_out_total", amount, partition=self._label, reason=reason)
        for name, metric in _CORRECTIONS.items():
            amount = getattr(account, name) - getattr(self._account, name)
            if amount > 0:
                self._reporter.count(metric, amount, partition=self._label)
        cut = account.sessions_cut - self._account.sessions_cut
        whole = account.sessions - self._account.sessions - cut
        for amount, is_cut in ((whole, "no"), (cut, "yes")):
            if amount > 0:
                self._reporter.count("recd_sessions_total", amount, partition=self._label, cut=is_cut)
        self._account = Account() + account

    def batch(self, batch: MiniBatch, wire_bytes: int) -> None:
        """One emitted mini-batch."""
        self._reporter.count("recd_batches_total", partition=self._label)
        samples = int(np.count_nonzero(batch.stages != Stage.CORRECTION))
        self._reporter.count("recd_samples_total", samples, partition=self._label)
        self._reporter.count("recd_wire_bytes_total", wire_bytes, partition=self._label)
        for group in batch.groups:
            self._reporter.gauge("recd_dedup_factor", group.dedup_factor, group=group.group)

    def late(self, late: ReportLate) -> None:
        """Events dropped behind the watermark."""
        for by_ms in np.asarray(late.late_by_ms).tolist():
            self._reporter.observe("recd_late_by_ms", by_ms)

    def dead_letter(self, rejected: Rejected) -> None:
        """One record sent to the dead-letter topic."""
        self._reporter.count("recd_dead_letters_total", reason=rejected.reason.value)

    def state(self, core: PartitionCore, now_ms: int) -> None:
        """Gauges, at most once a second."""
        if now_ms - self._state_ms < _STATE_EVERY_MS:
            return
        self._state_ms = now_ms
        held_from = core.smallest_held_offset
        self._reporter.gauge("recd_open_sessions", core.num_open_sessions, partition=self._label)
        self._reporter.gauge("recd_waiting_sessions", core.num_waiting_sessions, partition=self._label)
        self._delays(core.label_delays)
        self._reporter.gauge("recd_users_in_memory", core.num_users, partition=self._label)
        self._reporter.gauge("recd_held_samples", core.held, partition=self._label)
        self._reporter.gauge("recd_remembered_samples", core.num_remembered, partition=self._label)
        self._reporter.gauge("recd_shed_share", core.shed_share / WHOLE, partition=self._label)
        self._reporter.gauge("recd_watermark_ms", core.watermark_ms, partition=self._label)
        if core.has_outcomes:
            behind_ms = core.watermark_of(Input.INTERACTIONS) - core.watermark_of(Input.OUTCOMES)
            self._reporter.gauge("recd_outcomes_behind_ms", behind_ms, partition=self._label)
        held_events = 0 if held_from is None else core.next_offset - held_from
        self._reporter.gauge("recd_held_events", held_events, partition=self._label)

    def _delays(self, delays: npt.NDArray[np.int64]) -> None:
        """Outcomes by delay since the last call."""
        for bucket in np.flatnonzero(delays > self._counted).tolist():
            amount = int(delays[bucket] - self._counted[bucket])
            self._reporter.count("recd_outcomes_by_delay_total", amount, below_ms=str(2**bucket))
        self._counted = delays.copy()

    def ahead(self, num_bytes: int, shut_ms: int) -> None:
        """What waits for the trainer, and how long output has waited for it since the last call."""
        self._reporter.gauge("recd_ahead_bytes", num_bytes, partition=self._label)
        if shut_ms:
            self._reporter.count("recd_blocked_ms_total", shut_ms, partition=self._label)

    def freshness(self, steering: Steering) -> None:
        """How long samples wait for their mini-batch, and why."""
        self._reporter.gauge("recd_fresh_target_ms", steering.target_ms, partition=self._label)
        self._reporter.gauge("recd_fresh_wait_ms", steering.wait_ms, partition=self._label)
        if steering.delay_ms is not None:
            self._reporter.gauge("recd_fresh_delay_ms", steering.delay_ms, partition=self._label)

    def fetch_lag(self, source: Input, events: int) -> None:
        """End of an input's partition minus next offset to read."""
        if source is Input.INTERACTIONS:
            self._reporter.gauge("recd_fetch_lag_events", events, partition=self._label)
        else:
            self._reporter.gauge("recd_outcomes_lag_events", events, partition=self._label)

    def forget(self) -> None:
        """The partition has moved away."""
        self._reporter.forget(partition=self._label)
