"""`recd lag`: how far behind the sessionizer and the trainer are, once.

Owns the command's options and output. Never moves a position.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass

import msgspec
import typer

from infra.clock import Clock
from infra.commands.options import ConfigOption, JsonOption, SetOption
from infra.config import Config, load
from sessionizer.pressure import Pressure, read_pressure
from streams.kafka.lag import PartitionLag, lag_of, read_lag
from streams.kafka.reach import reach


@dataclass(frozen=True, slots=True)
class Stage:
    """One process that reads one topic."""

    name: str
    topic: str
    group: str
    wall_times: bool
    """Whether the topic's record times say when records were appended."""
    sheds: bool = False
    """Whether its partitions are those of which sessions are shed."""


def lag(config: ConfigOption = None, overrides: SetOption = None, as_json: JsonOption = False) -> None:
    """Show how far behind each process is, by partition.

    fetch: records not yet read, and the age of the oldest of them; held: read but not yet let go of; commit: what
    stock exporters see; ahead: bytes of mini-batches that are in no checkpoint of the trainer, counted up to where
    output waits (then with a +); shed: the share of sessions that is left out, as last decided. A dash means that
    nothing can be said: nothing was committed, the process does not tell, or worker.max_ahead_bytes is 0.

    Examples:

        recd lag

        recd lag --json | tail -1
    """
    settings = load(config, overrides or ())
    reach(settings.kafka)
    now_ms = Clock().now_ms
    found = {
        stage: [
            lag_of(reading, now_ms())
            for reading in read_lag(settings.kafka, stage.topic, stage.group, wall_times=stage.wall_times)
        ]
        for stage in _stages(settings)
    }
    pressed = read_pressure(settings.kafka, settings.topics, settings.worker, settings.source.group)
    if as_json:
        _put_json(found, pressed)
    else:
        _put_table(found, pressed)
    if not any(found.values()):
        sys.stderr.write("there are no topics yet: `recd ingest` makes them\n")
        raise typer.Exit(1)


def _stages(settings: Config) -> list[Stage]:
    topics = settings.topics
    return [
        *(
            Stage("sessionizer", topic, settings.worker.app, wall_times=False, sheds=topic == topics.interactions)
            for topic in topics.inputs
        ),
        Stage("trainer", topics.minibatches, settings.source.group, wall_times=True),
    ]


def _told(stage: Stage, partition: int, pressed: list[Pressure]) -> dict[str, int | float | bool | None]:
    """What back-pressure does, on the line of whom it concerns."""
    one = next((each for each in pressed if each.partition == partition), None)
    if stage.name == "trainer":
        return {
            "ahead_bytes": None if one is None else one.ahead_bytes,
            "ahead_is_all": None if one is None else one.ahead_is_all,
        }
    return {"shed_share": one.shed_share} if stage.sheds and one is not None else {"shed_share": None}


def _put_json(found: dict[Stage, list[PartitionLag]], pressed: list[Pressure]) -> None:
    for stage, partitions in found.items():
        named = {"event": "lag", "process": stage.name, "topic": stage.topic, "group": stage.group}
        for each in partitions:
            _put({**named, **asdict(each), **_told(stage, each.partition, pressed)})
    names = dict.fromkeys(stage.name for stage in found)
    totals = {name: _total([one for stage in found if stage.name == name for one in found[stage]]) for name in names}
    _put({"event": "summary", "ok": any(found.values()), **totals, "exit_reason": "done"})


def _total(partitions: list[PartitionLag]) -> dict[str, int | None]:
    """Events add up, ages do not. None if any partition cannot say."""
    events = [each.fetch_events for each in partitions]
    ages = [each.fetch_ms for each in partitions]
    commits = [each.commit_events for each in partitions]
    return {
        "fetch_events": sum(n for n in events if n is not None) if partitions and None not in events else None,
        "fetch_ms": max(n for n in ages if n is not None) if partitions and None not in ages else None,
        "commit_events": sum(n for n in commits if n is not None) if partitions and None not in commits else None,
    }


def _put_table(found: dict[Stage, list[PartitionLag]], pressed: list[Pressure]) -> None:
    several = len({stage.name for stage in found}) < len(found)
    lags = f"{'process':<12} {'partition':>9} {'fetch':>10} {'seconds':>9} {'held':>8} {'commit':>10}"
    sys.stdout.write(f"{lags} {'ahead':>12} {'shed':>7}\n")
    for stage, partitions in found.items():
        if several:
            sys.stdout.write(f"{stage.topic}\n")
        for each in partitions:
            seconds = "-" if each.fetch_ms is None else f"{each.fetch_ms / 1000:.1f}"
            numbers = f"{_n(each.fetch_events):>10} {seconds:>9} {_n(each.held_events):>8} {_n(each.commit_events):>10}"
            pressure = _pressure(_told(stage, each.partition, pressed))
            sys.stdout.write(f"{stage.name:<12} {each.partition:>9} {numbers} {pressure}\n")
            if each.problem is not None:
                sys.stdout.write(f"{'':<12} {each.problem}\n")


def _pressure(told: dict[str, int | float | bool | None]) -> str:
    ahead, share = told.get("ahead_bytes"), told.get("shed_share")
    more = "+" if told.get("ahead_is_all") is False else ""
    return f"{'-' if ahead is None else f'{ahead}{more}':>12} {'-' if share is None else f'{share:.1%}':>7}"


def _n(number: int | None) -> str:
    return "-" if number is None else str(number)


def _put(record: dict[str, object]) -> None:
    sys.stdout.write(f"{msgspec.json.encode(record).decode()}\n")
