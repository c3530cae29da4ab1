"""Is every event accounted for? The checks of a finished demo.

Three parties count for themselves: the sessionizer (its account), the trainer (its account) and the demo, which reads
the mini-batches back and compares them with the ledger. They must agree to the last event.

Owns: the checks and how a broken one reads. Never: counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.demo.measure import Measured
from infra.demo.synthetic import SyntheticLog
from sessionizer.account import Account

NE_STANDARD_ERRORS = 4


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold."""

    name: str
    holds: bool
    found: str

    def __str__(self) -> str:
        return f"{'ok    ' if self.holds else 'BROKEN'} {self.name}: {self.found}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What each party counted."""

    delivered: int
    """Events that Kafka acknowledged to the ingest, bad ones included."""
    account: Account
    """The sessionizer's."""
    held: int
    trained: int
    """Samples the model learned from."""
    skipped: int
    trained_batches: int


def account_checks(counts: Counts, measured: Measured) -> list[Check]:
    """The identities of semantics: nothing lost, nothing twice."""
    account = counts.account
    samples = account.impressions + account.labelled
    settled = (
        samples + account.outcomes + account.tombstones + account.duplicates + account.late + account.dead_lettered
    )
    return [
        _equal("events delivered = events read", counts.delivered, account.events),
        _equal(
            "events read = samples + outcomes + tombstones + duplicates + late + dead letters", account.events, settled
        ),
        _equal(
            "samples = emitted + sampled out + shed + erased + held",
            samples,
            account.emitted + account.sampled_out + account.shed + account.erased + counts.held,
        ),
        _equal("samples emitted = trained + skipped", account.emitted, counts.trained + counts.skipped),
        _equal("mini-batches emitted = mini-batches trained", account.batches, counts.trained_batches),
        _equal("samples in the ledger's mini-batches = samples emitted", measured.samples, account.emitted),
        _equal(
            "each sample once: different (partition, offset) = samples", measured.distinct_samples, measured.samples
        ),
    ]


def law_checks(log: SyntheticLog, measured: Measured, ne_lifetime: float | None) -> list[Check]:
    """What follows from the laws of the synthetic log."""
    best, error = log.best_ne()
    checks = [_equal("sessions found = sessions drawn", measured.sessions, log.sessions)]
    for group, expected in log.expected_factors().items():
        found, tolerance = measured.dedup_factor[group], log.factor_tolerance(group)
        checks.append(
            Check(
                f"dedup factor of {group} = 1/(1 - (S-1)/S d)",
                abs(found / expected - 1) <= tolerance,
                f"{found:.3f} measured, {expected:.3f} expected ± {100 * tolerance:.0f} %",
            )
        )
    bound = best - NE_STANDARD_ERRORS * error
    checks.append(
        Check(
            "NE is not below the best achievable",
            ne_lifetime is not None and ne_lifetime >= bound,
            f"{'none' if ne_lifetime is None else f'{ne_lifetime:.4f}'} measured, {best:.4f} ± {error:.4f} achievable",
        )
    )
    return checks


def parity_check(reasons: Sequence[str], *, difference: float) -> Check:
    """Deduplicated and plain training of the same mini-batches agree."""
    return Check(
        "parity with the plain model", not reasons, "; ".join((f"largest difference {difference:.2e}", *reasons))
    )


def broken(checks: Sequence[Check]) -> list[Check]:
    """Those that do not hold."""
    return [check for check in checks if not check.holds]


def _equal(name: str, left: int, right: int) -> Check:
    return Check(name, left == right, f"{left:,} = {right:,}" if left == right else f"{left:,} is not {right:,}")
