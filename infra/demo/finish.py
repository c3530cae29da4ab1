"""After the last process has ended: read back, measure, compare, check, tell.

Owns: turning a run into a summary, checks and a report. Never: starts or stops anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from infra.clock import Clock
from infra.config import Config
from infra.config_file import save_resolved
from infra.demo.account import Check, Counts, account_checks, broken, law_checks, parity_check
from infra.demo.inputs import DemoInput
from infra.demo.live import Live
from infra.demo.measure import Measured, measure
from infra.demo.options import DemoOptions
from infra.demo.outputs import last_object, objects
from infra.demo.paths import DemoPaths
from infra.demo.readback import Stored, in_trained_order, read_all
from infra.demo.summary import Summary, versions
from infra.report.page import html
from infra.report.pictures import Curve, RunPicture, png
from sessionizer.account import Account

SLICE_STEPS: Final = 40
FULL_STEPS: Final = 200
LEDGER: Final = "ledger"


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that came to its end, well or not."""

    title: str
    summary: Summary
    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def broken(self) -> list[Check]:
        """Checks that do not hold."""
        return broken(self.checks)


@dataclass(frozen=True, slots=True)
class Told:
    """What the children said at their ends."""

    ingest: dict[str, Any]
    account: Account
    held: int
    trainer: dict[str, Any]


def quality(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """The first task's metrics as the trainer tells them: `window` and `lifetime`."""
    tasks: Mapping[str, dict[str, Any]] = trainer["metrics"]
    return next(iter(tasks.values()))


def finish(
    config: Config,
    chosen: DemoInput,
    live: Live,
    paths: DemoPaths,
    options: DemoOptions,
    clock: Clock,
    begun_ms: int,
) -> Finished:
    """Everything after the run."""
    told = _told(live)
    steps = _steps(config, paths, clock)
    measured = measure(steps, chosen.logistic_features)
    difference, parity_reasons = _parity(config, steps, FULL_STEPS if options.full_parity else SLICE_STEPS)
    checks = account_checks(_counts(told), measured)
    if chosen.laws is not None:
        checks += law_checks(chosen.laws, measured, quality(told.trainer)["lifetime"]["ne"])
    checks.append(parity_check(parity_reasons, difference=difference))
    summary = _summary(told, live, measured, options.seed)
    summary = replace(
        summary,
        parity_max_abs_diff=difference,
        parity_ok=not parity_reasons,
        exit_reason="checks_failed" if broken(checks) else "end",
        wall_s=round((clock.monotonic_ms() - begun_ms) / 1000, 3),
    )
    finished = Finished(chosen.title, summary, tuple(checks), _notes(chosen, live))
    _report(finished, config, chosen, live, measured, paths)
    return finished


def _told(live: Live) -> Told:
    ingest = last_object(live.ingest.output(), {"read", "produced", "dead_letter"}, "ingest")
    session = last_object(live.sessionizer.output(), {"account", "held"}, "sessionizer")
    trainer = last_object(live.trainer.output(), {"lineage_samples", "metrics", "freshness_ms"}, "trainer")
    return Told(ingest, msgspec.convert(session["account"], Account), int(session["held"]), trainer)


def _steps(config: Config, paths: DemoPaths, clock: Clock) -> list[list[Stored]]:
    from trainer.ledger import lineage
    from trainer.ledger_file import read

    lines = lineage(read(paths.model / LEDGER))
    return in_trained_order(read_all(config.kafka, config.topics, clock), lines)


def _parity(config: Config, steps: Sequence[Sequence[Stored]], limit: int) -> tuple[float, Sequence[str]]:
    """Largest difference between deduplicated and plain training, and why they do not agree; nothing if they do."""
    import torch

    from trainer.parity import run_parity

    torch.set_num_threads(config.train.threads)
    batches = [each.batch for step in steps[:limit] for each in step]
    report = run_parity(batches, config.schema, config.model, config.optimizer, config.train.seed, steps=limit)
    return max(report.max_abs_diff.values()), report.reasons


def _counts(told: Told) -> Counts:
    return Counts(
        delivered=int(told.ingest["produced"]),
        account=told.account,
        held=told.held,
        trained=int(told.trainer["lineage_samples"]),
        skipped=int(told.trainer["lineage_skipped_samples"]),
        trained_batches=int(told.trainer["lineage_batches"]),
    )


def _summary(told: Told, live: Live, measured: Measured, seed: int) -> Summary:
    scores = quality(told.trainer)
    window, lifetime = scores["window"], scores["lifetime"]
    return Summary(
        events=int(told.ingest["read"]),
        samples_trained=int(told.trainer["lineage_samples"]),
        late=told.account.late,
        dead_letter=told.account.dead_lettered + int(told.ingest["dead_letter"]),
        duplicates=told.account.duplicates,
        skipped=int(told.trainer["lineage_skipped_samples"]),
        batches=measured.batches,
        sessions=measured.sessions,
        sessions_cut=told.account.sessions_cut,
        dedup_factor=_rounded(measured.dedup_factor),
        partial_factor=_rounded(measured.partial_factor),
        wire_bytes=measured.wire_bytes,
        kjt_bytes=measured.kjt_bytes,
        ne_window=window["ne"],
        ne_lifetime=lifetime["ne"],
        auc_lifetime=lifetime["auc"],
        calibration=lifetime["calibration"],
        ne_logistic_regression=measured.ne_logistic_regression,
        events_per_s=round(1000 * int(told.ingest["read"]) / max(1, live.work_ms), 1),
        freshness_ms=told.trainer["freshness_ms"],
        parity_max_abs_diff=float("nan"),
        parity_ok=False,
        seed=seed,
        versions=versions(),
        exit_reason="",
        wall_s=0.0,
    )


def _rounded(factors: dict[str, float]) -> dict[str, float]:
    return {name: round(factor, 4) for name, factor in factors.items()}


def _notes(chosen: DemoInput, live: Live) -> tuple[str, ...]:
    notes = [f"{name} was killed and started again {count} times" for name, count in live.restarts.items() if count]
    if chosen.laws is not None:
        best, error = chosen.laws.best_ne()
        notes.append(
            f"best achievable NE on this log: {best:.4f} ± {error:.4f}; expected {chosen.laws.expected_best_ne():.4f}"
        )
    if chosen.terms:
        notes.append(chosen.terms)
    return tuple(notes)


def _report(
    finished: Finished, config: Config, chosen: DemoInput, live: Live, measured: Measured, paths: DemoPaths
) -> None:
    paths.report.mkdir(parents=True, exist_ok=True)
    picture = png(_picture(finished, chosen, live, measured))
    title = f"recd demo: {finished.title}"
    checks = {check.name: f"{'holds' if check.holds else 'BROKEN'}: {check.found}" for check in finished.checks}
    page = html(title, picture, finished.summary.rows() | checks, finished.notes)
    (paths.report / "report.png").write_bytes(picture)
    (paths.report / "report.html").write_text(page, encoding="utf-8")
    (paths.report / "summary.json").write_text(
        json.dumps(finished.summary.as_json(), indent=1) + "\n", encoding="utf-8"
    )
    save_resolved(config, paths.report)


def _picture(finished: Finished, chosen: DemoInput, live: Live, measured: Measured) -> RunPicture:
    readings = live.progress.readings
    # Nothing waits at the end; a process that has left does not say so any more.
    seconds = np.array([*(reading.wall_ms / 1000 for reading in readings), live.wall_ms / 1000])
    summary = finished.summary
    waiting = {
        "events not read yet": [reading.lag_events for reading in readings],
        "samples waiting for their session's end": [reading.held for reading in readings],
        # A trainer that was killed counts from its checkpoint again.
        "samples emitted, not trained": [max(0, reading.emitted - reading.trained) for reading in readings],
    }
    return RunPicture(
        title=f"recd demo: {finished.title}",
        subtitle=f"{summary.events:,} events, {summary.batches:,} mini-batches, every sample trained once; "
        f"{summary.events_per_s:,.0f} events/s end to end",
        ne=(*_ne_curves(live), Curve("online logistic regression, lifetime", *measured.ne_curve)),
        ne_bound=chosen.laws.best_ne()[0] if chosen.laws is not None else None,
        factors=measured.factors,
        sizes={
            "ids,\nin memory": measured.ids_bytes,
            "mini-batches,\non the wire\n(zstd level 3)": (measured.kjt_bytes, measured.wire_bytes),
        },
        lag=tuple(Curve(label, seconds, np.asarray([*values, 0], np.float64)) for label, values in waiting.items()),
    )


def _ne_curves(live: Live) -> Iterator[Curve]:
    """What the trainer said once a second, in samples of the lineage: a restart goes on where it stopped."""
    labels = {"window": "recd, last 10,000 samples", "lifetime": "recd, lifetime"}
    said = [quality(each) | {"at": each["lineage_samples"]} for each in objects(live.trainer.output(), {"metrics"})]
    for scope, label in labels.items():
        points = sorted({each["at"]: each[scope]["ne"] for each in said if each[scope]["ne"] is not None}.items())
        yield Curve(label, *np.asarray(points, np.float64).reshape(-1, 2).T)
