"""`recd route`: the long-running process that gives any topic the keys and partitions of an input.

Owns the command's options and what a person or a program sees of a run. Never routes a record itself.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import asdict
from typing import Annotated, Final, NamedTuple

import typer

from infra.clock import Clock
from infra.commands.options import ConfigOption, JsonOption, SetOption
from infra.commands.services_output import INTERRUPTED, put, say
from infra.config import Config, load
from infra.stopping import stopping
from sessionizer.garbage import collect_rarely
from streams.errors import ConfigError, RetryableError
from streams.inputs import Input
from streams.kafka import client, topics
from streams.kafka.end_marks import write_end_marks
from streams.kafka.outbox import Outbox
from streams.kafka.reach import reach
from streams.kafka.route import Listener, Route, RouteReport
from streams.kafka.route_config import RouteConfig

_LINE_EVERY_MS: Final = 2_000

SourceArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic that your producers write.")]
OutcomesOption = Annotated[bool, typer.Option("--outcomes", help="It holds outcomes: route it to topics.outcomes.")]
UntilEndOption = Annotated[bool, typer.Option("--until-end", help="Stop at the end that the topic has now.")]
EndOption = Annotated[
    bool, typer.Option("--end", help="With --until-end: then declare the end of the stream, so that sessions close.")
]
FromStartOption = Annotated[
    bool, typer.Option("--from-start", help="Route all of the topic again, whatever was routed before.")
]


class _Spent(NamedTuple):
    """Time of this process."""

    wall_ms: int
    cpu_ns: int


def route(
    source: SourceArgument,
    outcomes: OutcomesOption = False,
    until_end: UntilEndOption = False,
    end: EndOption = False,
    from_start: FromStartOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a topic anew as an input of the sessionizer: each record in the partition of its user, exactly once.

    For topics with other partitions, another partitioner, or without keys. Values, headers and time stamps stay;
    headers say where each record came from. It goes on where it stopped, after a kill too. A record without a readable
    user goes to the dead-letter topic. The first SIGINT or SIGTERM lets it commit and leave.

    Examples:

        recd route clicks-of-the-web --outcomes

        recd route views-in-12-partitions --until-end --end

        recd route clicks-of-the-web --outcomes --until-end --json | tail -1
    """
    settings = load(config, overrides or ())
    if end and not until_end:
        raise ConfigError("--end declares the end of the stream, which a run without --until-end has not; give both")
    wanted = _config(settings, source, outcomes=outcomes, until_end=until_end, from_start=from_start)
    collect_rarely()
    clock = Clock()
    reach(settings.kafka)
    topics.ensure(client.admin(settings.kafka), settings.topics)
    begun = _Spent(clock.monotonic_ms(), clock.process_ns())
    with stopping() as told:
        run = Route(wanted, clock, told.asked, _lines(clock, as_json=as_json))
        ended = run.run()
        if ended and end:
            write_end_marks(Outbox(settings.kafka, settings.topics, clock), settings.kafka, settings.topics)
    reason = "end" if ended else "interrupted" if told.by is signal.SIGINT else "terminated"
    spent = _Spent(clock.monotonic_ms() - begun.wall_ms, clock.process_ns() - begun.cpu_ns)
    _conclude(run.report, reason, spent, settings, as_json=as_json)
    if reason == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _config(settings: Config, source: str, *, outcomes: bool, until_end: bool, from_start: bool) -> RouteConfig:
    target = Input.OUTCOMES if outcomes else Input.INTERACTIONS
    return RouteConfig(
        kafka=settings.kafka,
        topics=settings.topics,
        roles=settings.roles_of(target),
        format=settings.format.of(target),
        source=source,
        target=target,
        app=settings.worker.app,
        commit_every_ms=settings.worker.commit_every_ms,
        max_transaction_bytes=settings.worker.max_transaction_bytes,
        retry_ms=settings.worker.retry_ms,
        until_end=until_end,
        from_start=from_start,
    )


def _lines(clock: Clock, *, as_json: bool) -> Listener:
    """A line now and then, and one for each failure."""
    next_ms = clock.monotonic_ms() + _LINE_EVERY_MS

    def show(report: RouteReport, error: RetryableError | None) -> None:
        nonlocal next_ms
        if error is not None:
            say(f"{error}; trying again")
        elif clock.monotonic_ms() >= next_ms:
            next_ms = clock.monotonic_ms() + _LINE_EVERY_MS
            if as_json:
                put({"event": "progress", **asdict(report)})
            else:
                say(f"routed {report.written}, {report.dead_letter} rejected, {report.left} left")

    return show


def _conclude(report: RouteReport, reason: str, spent: _Spent, settings: Config, *, as_json: bool) -> None:
    wall_s = spent.wall_ms / 1000
    per_s = round(report.read / wall_s, 1) if wall_s else 0.0
    cpu_us = round(spent.cpu_ns / 1000 / report.read, 2) if report.read else 0.0
    if as_json:
        rates = {"wall_s": round(wall_s, 3), "records_per_s": per_s, "cpu_us_per_record": cpu_us}
        put({"event": "summary", "ok": True, **asdict(report), **rates, "exit_reason": reason})
        return
    reasons = ", ".join(f"{number} {name}" for name, number in report.reasons.items())
    rejected = f"{report.dead_letter} dead-lettered" + (f" ({reasons})" if reasons else "")
    sys.stdout.write(f"{report.read} records read: {report.written} written, {rejected}\n")
    sys.stdout.write(
        f"{report.bytes} bytes in {wall_s:.1f} s, {per_s:.0f} records/s, {cpu_us:.1f} µs of CPU a record\n"
    )
    if report.dead_letter:
        say(f"what is wrong with each: recd inspect dead-letters (topic {settings.topics.dead_letter})")
    if reason != "end":
        say("stopped after a transaction; the same command goes on from there")
