"""Wherever and whenever a trainer dies: each sample is trained once, and the weights are those of an unkilled run.

`make audit` does it two hundred times: at every named site of a step, a save and a commit, at instants in the middle
of work, and at instants of a start, with saves in the background or not, with all rows in memory or most in a file.
Where it writes its result, and how it goes on after it was stopped, stands in `audit_record`.
"""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from infra.clock import Clock
from tests.fault.audit_record import Record
from tests.fault.test_trainer_kill import saved_step, what_differs
from tests.fault.trainer_process import TrainerHome, make_home
from tests.trainer.kafka_kit import MiniBatchTopic, make_topic, trained_steps, write_log
from tests.trainer.lineage_kit import topic
from trainer.crash import SITES

pytestmark = [pytest.mark.fault, pytest.mark.integration]

POINTS: Final = 200
BATCHES: Final = 250
"""Of each partition, and as many steps: more than the deaths of a round take."""
LOG = topic(batches=BATCHES)
AT_START, AT_WORK = "instant of a start", "instant of work"
SITES_OF_ROUND, STARTS_OF_ROUND, WORKS_OF_ROUND = 6, 2, 2


@dataclass(frozen=True, kw_only=True)
class Point:
    """One death."""

    what: str
    """A site of `trainer.crash`, or one of the instants."""
    nth: int = 1
    """Sites: the passing that kills. Work: steps before it."""
    wait_ms: int = 0
    """How long after the process began, or after these steps."""


@pytest.fixture(scope="module")
def minibatches(kafka: str) -> MiniBatchTopic:
    made = make_topic(kafka, "trainer-audit")
    write_log(made, LOG, per_transaction=50)
    made.end()
    return made


def points_of(number: int, seed: int) -> list[Point]:
    """The deaths of a round: over the rounds every site has its turn, in an order of the seed's."""
    order, draw = np.random.default_rng(seed).permutation(len(SITES)), np.random.default_rng((seed, number))
    sites = [SITES[order[(number * SITES_OF_ROUND + i) % len(SITES)]] for i in range(SITES_OF_ROUND)]
    most = {"ledger_written": 15, "step_done": 15, "file_written": 6}
    points = [Point(what=site, nth=int(draw.integers(1, most.get(site, 4)))) for site in sites]
    points += [Point(what=AT_START, wait_ms=int(draw.integers(0, 1500))) for _ in range(STARTS_OF_ROUND)]
    points += [
        Point(what=AT_WORK, nth=int(draw.integers(1, 12)), wait_ms=int(draw.integers(0, 6)))
        for _ in range(WORKS_OF_ROUND)
    ]
    return [points[i] for i in draw.permutation(len(points))]


def die(home: TrainerHome, point: Point) -> dict[str, Any]:
    """One life and its death. It counts if the process died by the kill with steps left to train."""
    clock, before = Clock(), trained_steps(home.model)
    if point.what in SITES:
        code, _ = home.run("--exit-at-end", "--crash-at", f"{point.what}:{point.nth}")
        died = code == -signal.SIGKILL
    else:
        process = home.start("--exit-at-end")
        if point.what == AT_WORK:
            home.wait_for_steps(min(before + point.nth, BATCHES))
        clock.sleep(point.wait_ms)
        died = process.process.is_alive()
        process.send(signal.SIGKILL)
        process.process.join()
    trained = trained_steps(home.model)
    return asdict(point) | {"in_flight": trained - saved_step(home), "counts": died and trained < BATCHES}


def one_round(
    minibatches: MiniBatchTopic, directory: Path, seed: int, number: int, most: int | None = None
) -> dict[str, Any]:
    """Deaths of one lineage, at most so many, then its end."""
    background, hot_rows = bool(number % 2), 60 if number % 4 > 1 else 0
    home = make_home(directory, minibatches, every_steps=4, background=background, hot_rows=hot_rows)
    hits = [die(home, point) for point in points_of(number, seed)[:most]]
    code, summary = home.run("--exit-at-end")
    assert code == 0, (directory / "stderr.log").read_text()
    wrong = what_differs(home, minibatches, LOG)
    return {
        "round": number,
        "background": background,
        "hot_rows": hot_rows,
        "points": hits,
        "steps": summary["step"],
        "epoch": summary["epoch"],
        "exact": not wrong,
        "wrong": wrong,
    }


@pytest.mark.timeout(900)
def test_a_lineage_that_dies_again_and_again_is_exact(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    done = one_round(minibatches, tmp_path, seed=1, number=3, most=6)
    assert done["exact"], done
    assert sum(point["counts"] for point in done["points"]) >= 4, done
    assert any(point["in_flight"] for point in done["points"]), done


@pytest.mark.audit
def test_two_hundred_deaths_repeat_and_lose_nothing(minibatches: MiniBatchTopic, tmp_path: Path) -> None:
    record, clock = Record("trainer"), Clock()
    print(f"seed {record.seed}; rounds go to {record.path}")  # noqa: T201  (asked for)
    begun_ms = clock.monotonic_ms()
    while (number := len(record.rounds)) < 100 and _counted(record) < POINTS:
        done = one_round(minibatches, tmp_path / str(number), record.seed, number)
        record.add(done)
        assert done["exact"], f"seed {record.seed}, round {number}: {done}"
    hit = Counter(point["what"] for done in record.rounds for point in done["points"] if point["counts"])
    record.conclude(
        {
            "result": "exact",
            "counted": _counted(record),
            "rounds": len(record.rounds),
            "points": dict(hit),
            "wall_s": (clock.monotonic_ms() - begun_ms) // 1000,
        }
    )
    assert _counted(record) >= POINTS, f"seed {record.seed}: only {_counted(record)} points hit work in flight"
    assert {*SITES, AT_START, AT_WORK} <= hit.keys(), f"seed {record.seed}: never hit: {set(SITES) - hit.keys()}"


def _counted(record: Record) -> int:
    return sum(point["counts"] for done in record.rounds for point in done["points"])
