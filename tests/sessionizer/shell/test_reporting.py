"""What a partition reports: as many series for many users as for few, and none that stands still when it has left."""

from __future__ import annotations

from infra.metrics import PrometheusReporter
from streams.clock_mark import ClockMark, MarkKind
from tests.sessionizer.shell.test_partition import Life
from tests.sessionizer.shell.world import events, records

Series = tuple[str, frozenset[tuple[str, str]]]


def series(reporter: PrometheusReporter, kind: str = "") -> set[Series]:
    """Names and labels of all that can be read; only of metrics of one kind, if that is given."""
    return {
        (sample.name, frozenset(sample.labels.items()))
        for metric in reporter.registry.collect()
        for sample in metric.samples
        if metric.type == (kind or metric.type)
    }


def worked(users: int) -> tuple[Life, PrometheusReporter]:
    """A partition that has worked through a stream of so many users, to its end."""
    reporter = PrometheusReporter()
    life = Life(reporter=reporter)
    life.log.records = records(events(2_000, seed=9, users=users))
    life.log.clock.append(ClockMark(partition=0, after_offset=1_500, kind=MarkKind.END))
    life.now_ms += 2_000_000
    life.work(100, finish=True)
    return life, reporter


def test_there_are_as_many_series_for_many_users_as_for_few() -> None:
    (_, few), (life, many) = worked(20), worked(2_000)
    assert life.partition is not None
    assert life.partition.core.account.sessions > 100
    assert series(few) == series(many)


def test_nothing_of_a_partition_that_has_left_stands_still_on_a_chart() -> None:
    life, reporter = worked(20)
    mine = ("partition", "0")
    assert any(mine in labels for _, labels in series(reporter, "gauge"))
    counted = series(reporter, "counter")
    assert life.partition is not None
    life.partition.close()
    assert not any(mine in labels for _, labels in series(reporter, "gauge"))
    assert series(reporter, "counter") == counted, "what has happened has happened"
