"""What a demo ends with: one object, and the table a person reads.

Owns: the names of the summary's keys, which are a contract, and their order. Never: computes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Any, Final

PACKAGES: Final = (
    *("recd", "torch", "torchrec", "fbgemm-gpu-cpu", "fbgemm-gpu", "faust-streaming", "aiokafka", "confluent-kafka"),
    *("redis", "numpy", "numba", "zstandard"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The last object of `recd demo --json`."""

    events: int
    samples_trained: int
    late: int
    dead_letter: int
    duplicates: int
    skipped: int
    batches: int
    sessions: int
    """Sessions, and parts of sessions that a cap cut."""
    sessions_cut: int
    dedup_factor: Mapping[str, float]
    partial_factor: Mapping[str, float]
    wire_bytes: int
    kjt_bytes: int
    """The same mini-batches without deduplication, same codec and level."""
    ne_window: float | None
    """Over the last 10,000 samples."""
    ne_lifetime: float | None
    auc_lifetime: float | None
    calibration: float | None
    ne_logistic_regression: float
    events_per_s: float
    freshness_ms: Mapping[str, int | None]
    """Append to step done: p50 and p99, of the trainer's last process."""
    parity_max_abs_diff: float
    parity_ok: bool
    seed: int
    versions: Mapping[str, str]
    exit_reason: str
    """end, or what kept the run from it."""
    wall_s: float

    def as_json(self) -> dict[str, Any]:
        """Exactly these keys."""
        return asdict(self)

    def rows(self) -> dict[str, str]:
        """The same for a person."""
        saved = self.kjt_bytes / max(1, self.wire_bytes)
        exact = ", ".join(f"{name} {factor:.2f}x" for name, factor in self.dedup_factor.items())
        partial = ", ".join(f"{name} {factor:.2f}x" for name, factor in self.partial_factor.items())
        odd = f"{self.late:,} late, {self.duplicates:,} duplicates, {self.dead_letter:,} dead letters"
        window = f"last 10,000 samples {_ratio(self.ne_window)}"
        freshness = ", ".join(f"{name} {_ms(value)}" for name, value in self.freshness_ms.items())
        return {
            "events": f"{self.events:,} ({odd})",
            "samples trained": f"{self.samples_trained:,}, each once ({self.skipped:,} skipped)",
            "mini-batches": f"{self.batches:,} of {self.sessions:,} sessions ({self.sessions_cut:,} parts cut)",
            "dedup factor": exact,
            "if shifted lists were shared": partial,
            "bytes on the wire": f"{self.wire_bytes:,}, {saved:.2f}x fewer than expanded ({self.kjt_bytes:,})",
            "NE, lifetime": f"{_ratio(self.ne_lifetime)} ({window}; lower is better, 1 = base rate)",
            "NE, logistic regression": f"{_ratio(self.ne_logistic_regression)} on the same mini-batches",
            "AUC, calibration": f"{_ratio(self.auc_lifetime)}, {_ratio(self.calibration)}",
            "speed": f"{self.events_per_s:,.0f} events/s from the first append to the last step",
            "freshness": f"{freshness}, append to step done",
            "parity": f"{'holds' if self.parity_ok else 'BROKEN'}, largest difference {self.parity_max_abs_diff:.1e}",
            "time": f"{self.wall_s:.0f} s in all, seed {self.seed}",
        }


def versions() -> dict[str, str]:
    """Of Python and of the packages that matter; those not installed are left out."""
    found = {"python": python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value:,} ms"
