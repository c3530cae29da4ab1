"""Whatever dies or moves, and wherever: the committed mini-batches are those of an undisturbed run, each once.

`make audit` does it a hundred times, `make test` at a few points and with the two controls that must be found out: a
worker without transactions, and one that does not suppress what had been emitted. Seeds are printed; where the audit
writes its result, and how it goes on after it was stopped, stands in `audit_record`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from infra.clock import Clock
from tests.fault.audit_points import INSTANT, Hit, Point, deaths, die, move
from tests.fault.audit_record import Record
from tests.fault.audit_round import Verdict, audit_round
from tests.fault.audit_world import CORRECTING, JOIN
from tests.fault.crash_sites import SITES

pytestmark = [pytest.mark.fault, pytest.mark.integration]

POINTS = 100


@pytest.mark.timeout(900)
def test_a_worker_that_dies_between_the_steps_of_a_commit_repeats_and_loses_nothing(kafka: str, tmp_path: Path) -> None:
    points = [
        Point(what="batch sent", nth=3),
        Point(what="flushed", nth=4),
        Point(what="committed", nth=4),
        Point(what="marks read back"),
        Point(what=INSTANT, wait_ms=50),
    ]
    with audit_round(kafka, "audit-few-deaths", tmp_path, seed=1, portions=len(points), fresh_ms=100) as attack:
        hits = die(attack, points)
        attack.start("w0")
        attack.finish()
        assert attack.verdict().exact, attack.logs()
        assert [hit.point for hit in hits if hit.counts] == points, hits
        account = attack.account
        names = ("impressions", "labelled", "outcomes", "tombstones", "duplicates", "late", "dead_lettered", "joined")
        assert all(getattr(account, name) for name in names), "the stream must have everything in it"


@pytest.mark.timeout(900)
def test_corrections_survive_a_worker_that_dies_and_come_once(kafka: str, tmp_path: Path) -> None:
    # The other sites have no more to do with corrections than with samples; `make audit` draws from all of them.
    points = [Point(what="committed", nth=3), Point(what="cut sent", nth=2)]
    with audit_round(
        kafka, "audit-corrections", tmp_path, seed=4, portions=len(points), fresh_ms=100, join=CORRECTING
    ) as attack:
        hits = die(attack, points)
        attack.start("w0")
        attack.finish()
        assert attack.verdict().exact, attack.logs()
        assert [hit.point for hit in hits if hit.counts] == points, hits
        assert attack.account.corrected > 100, "outcomes must come after their samples have left"


@pytest.mark.timeout(900)
def test_partitions_that_move_with_work_in_flight_repeat_and_lose_nothing(kafka: str, tmp_path: Path) -> None:
    with audit_round(kafka, "audit-few-moves", tmp_path, seed=3, portions=3) as attack:
        hits = move(attack, ["join", "leave"])
        attack.finish()
        assert attack.verdict().exact, attack.logs()
        assert any(hit.counts for hit in hits), hits


@pytest.mark.parametrize("broken", ["transactions", "suppression"])
@pytest.mark.timeout(900)
def test_a_worker_that_is_broken_on_purpose_is_found_out(kafka: str, tmp_path: Path, broken: str) -> None:
    # Without suppression it shows if something was committed after the cut; without transactions, if something was not.
    plain, commit_ms = broken == "transactions", {"transactions": 1_000, "suppression": 50}[broken]
    with audit_round(
        kafka, f"audit-control-{broken}", tmp_path, seed=2, portions=1, plain=plain, cut_every_ms=60_000,
        commit_every_ms=commit_ms,
    ) as attack:  # fmt: skip
        attack.suppress = broken != "suppression"
        (hit,) = die(attack, [Point(what="batch sent", nth=60)])
        attack.start("w0")
        attack.finish()
        verdict = attack.verdict()
        assert hit.counts
        assert verdict.twice > 0, verdict
        assert verdict.lost == 0, verdict


@pytest.mark.audit
def test_a_hundred_deaths_and_moves_repeat_and_lose_nothing(kafka: str, tmp_path: Path) -> None:
    record, clock = Record("sessionizer"), Clock()
    print(f"seed {record.seed}; rounds go to {record.path}")  # noqa: T201  (asked for)
    begun_ms = clock.monotonic_ms()
    while (number := len(record.rounds)) < 200 and _counted(record) < POINTS:
        done = one_round(kafka, tmp_path / str(number), record.seed, number)
        record.add(done)
        assert done["exact"], f"seed {record.seed}, round {number}: {done}"
    sites = Counter(point["what"] for done in record.rounds for point in done["points"] if point["counts"])
    record.conclude(
        {
            "result": "exact",
            "counted": _counted(record),
            "rounds": len(record.rounds),
            "points": dict(sites),
            "wall_s": (clock.monotonic_ms() - begun_ms) // 1000,
        }
    )
    assert _counted(record) >= POINTS, f"seed {record.seed}: only {_counted(record)} points hit work in flight"
    assert set(SITES) <= sites.keys(), f"seed {record.seed}: never hit: {set(SITES) - sites.keys()}"


def one_round(kafka: str, directory: Path, seed: int, number: int) -> dict[str, object]:
    """Two rounds of deaths, then one of moves, and so on."""
    draw = np.random.default_rng((seed, number, 1))
    moving, workers = number % 3 == 2, int(draw.integers(1, 4))
    hits: list[Hit]
    name, events_seed = f"audit-{seed}-{number}", int(draw.integers(1 << 20))
    fresh_ms, join = int(draw.choice([0, 100])), CORRECTING if draw.random() < 0.5 else JOIN
    with audit_round(kafka, name, directory, seed=events_seed, portions=5, fresh_ms=fresh_ms, join=join) as attack:
        if moving:
            hits = move(attack, [str(what) for what in draw.permutation(["join", "leave", "freeze", "death"])])
        else:
            for other in range(1, workers):
                attack.start(f"w{other}")
            hits = die(attack, deaths(number - number // 3, seed, sites=4, instants=1))
            attack.start("w0")
        attack.finish()
        verdict: Verdict = attack.verdict()
        if not verdict.exact:
            (directory / "verdict.txt").write_text(f"{verdict}\n{attack.logs()}")
        return {
            "round": number,
            "kind": "moves" if moving else f"deaths, {workers} workers",
            "policy": join.policy,
            "points": [hit.told() for hit in hits],
            "events": attack.account.events,
            "samples": attack.account.emitted,
            "exact": verdict.exact,
            "verdict": str(verdict),
        }


def _counted(record: Record) -> int:
    return sum(point["counts"] for done in record.rounds for point in done["points"])
