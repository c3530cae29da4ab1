"""`recd ingest`: a log in files into the interactions topic, or that of the outcomes.

Owns the command's options and what a person or a program sees of a run. Never sends an event itself.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from infra.clock import Clock
from infra.commands.options import ConfigOption, JsonOption, SetOption
from infra.config import Config, load
from streams.errors import ConfigError
from streams.files.read import Format
from streams.inputs import Input
from streams.kafka import client, topics
from streams.kafka.ingest import Ingest, IngestReport, Listener, Progress
from streams.kafka.pace import Pace, at_rate, at_speed, flat_out
from streams.kafka.reach import reach

FAILED: Final = 1
INTERRUPTED: Final = 130
_LINE_EVERY_MS: Final = 2_000

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="CSV, TSV, JSON lines or Parquet; .gz and .zst too.")
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Where the name does not say it: csv, tsv, jsonl or parquet.")
]
SpeedOption = Annotated[float | None, typer.Option("--speed", help="So many times as fast as it once happened.")]
RateOption = Annotated[float | None, typer.Option("--rate", help="So many events a second.")]
OutcomesOption = Annotated[bool, typer.Option("--outcomes", help="The files hold outcomes: for topics.outcomes.")]
EndOption = Annotated[bool, typer.Option("--end", help="Declare the end of the stream: open sessions close.")]


def ingest(
    files: FilesArgument,
    kind: FormatOption = None,
    speed: SpeedOption = None,
    rate: RateOption = None,
    outcomes: OutcomesOption = False,
    end: EndOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a log into the interactions topic, in the order of its own times, flat out unless told otherwise.

    Several files are merged by time. A row without user or time, with an impossible time, or that is no row at
    all goes to the dead-letter topic with its file and line; the rest goes on, and the count is checked.

    Examples:

        recd ingest ratings.csv --end

        recd ingest monday.parquet tuesday.parquet --speed 60

        recd ingest events.jsonl.gz --rate 500 --json | tail -1

        recd ingest clicks.jsonl --outcomes --end
    """
    pace = _pace(speed, rate)
    settings = load(config, overrides or ())
    target = Input.OUTCOMES if outcomes else Input.INTERACTIONS
    _check(settings, files, target, end=end)
    clock = Clock()
    reach(settings.kafka)
    topics.ensure(client.admin(settings.kafka), settings.topics, plain=settings.kafka.plain)
    begun_ms = clock.monotonic_ms()
    with _shown(clock, as_json=as_json) as listener, _interrupts() as interrupted:
        roles = settings.roles_of(target)
        run = Ingest(settings.kafka, settings.topics, roles, clock, pace=pace, listener=listener, target=target)
        try:
            report, reason = run.run(files, kind, end=end), "done"
        except (KeyboardInterrupt, SystemError):
            if not interrupted():
                raise
            report, reason = run.abandon(), "interrupted"
    _conclude(report, reason, clock.monotonic_ms() - begun_ms, as_json=as_json)
    if report.examples and not as_json:
        for why, example in report.examples.items():
            _say(f"{why}, the first: {example}")
        _say(f"reason and line of each: recd inspect dead-letters (topic {settings.topics.dead_letter})")
    if reason == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if report.read and not report.produced:
        _say(f"error: not one row could be used; check [{roles.section}] against the first lines above")
        raise typer.Exit(FAILED)


def _check(settings: Config, files: list[Path], target: Input, *, end: bool) -> None:
    """Before anything is connected to."""
    its = settings.format.of(target).name
    if its != "json":
        own = target is Input.OUTCOMES and settings.format.outcomes is not None
        key = "format.outcomes" if own else "format.name"
        raise ConfigError(
            f'recd ingest sends JSON, but {key} is {its}; set {key} = "json", or send the events with a producer of '
            "that format"
        )
    if target is Input.OUTCOMES and settings.topics.outcomes is None:
        raise ConfigError("--outcomes needs a topic to send to; set topics.outcomes")
    if end and settings.kafka.plain and settings.topics.outcomes is not None:
        raise ConfigError("--end with topics.outcomes needs a real Kafka: the in-memory stand-in reports wrong ends")
    for file in files:
        if not file.exists():
            raise ConfigError(f"{file}: cannot be read: there is no such file")


def _pace(speed: float | None, rate: float | None) -> Pace:
    if speed is not None and rate is not None:
        raise ConfigError("--speed and --rate exclude each other; give one of them")
    for name, value in {"--speed": speed, "--rate": rate}.items():
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{name} must be positive")
    if speed is not None:
        return at_speed(speed)
    return at_rate(rate) if rate is not None else flat_out


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether SIGINT came.

    confluent-kafka loses the exception of one that comes at a bad time in `poll`, and raises SystemError instead.
    """
    seen = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen = True
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: seen
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _shown(clock: Clock, *, as_json: bool) -> Iterator[Listener]:
    """A bar on a terminal, a line now and then elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        yield _lines(clock, as_json=as_json)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("reading", total=None)

        def show(progress: Progress) -> None:
            dead = f", {progress.dead_letter} rejected" if progress.dead_letter else ""
            if progress.to_send:
                bar.update(task, description=f"sending{dead}", completed=progress.sent, total=progress.to_send)
            else:
                bar.update(task, description=f"reading{dead}", completed=progress.rows_read)

        yield show


def _lines(clock: Clock, *, as_json: bool) -> Listener:
    next_ms = clock.monotonic_ms() + _LINE_EVERY_MS

    def show(progress: Progress) -> None:
        nonlocal next_ms
        if clock.monotonic_ms() < next_ms:
            return
        next_ms = clock.monotonic_ms() + _LINE_EVERY_MS
        if as_json:
            _put({"event": "progress", **asdict(progress)})
        else:
            doing = f"sent {progress.sent} of {progress.to_send}" if progress.to_send else f"read {progress.rows_read}"
            _say(f"{doing}, {progress.dead_letter} rejected")

    return show


def _conclude(report: IngestReport, reason: str, wall_ms: int, *, as_json: bool) -> None:
    wall_s = wall_ms / 1000
    per_s = round(report.produced / wall_s, 1) if wall_s else 0.0
    reasons = ", ".join(f"{number} {name}" for name, number in report.reasons.items())
    if reason == "interrupted":
        _say(
            f"interrupted: {report.produced} events and {report.dead_letter} dead letters are in Kafka. Running the "
            "same command again is safe: events that are there already count as duplicates"
        )
    if as_json:
        rates = {"wall_s": round(wall_s, 3), "events_per_s": per_s}
        ok = reason == "done" and (report.produced > 0 or report.read == 0)
        _put({"event": "summary", "ok": ok, **asdict(report), **rates, "exit_reason": reason})
    else:
        rejected = f"{report.dead_letter} dead-lettered" + (f" ({reasons})" if reasons else "")
        sys.stdout.write(f"{report.read} rows read: {report.produced} events produced, {rejected}\n")
        sys.stdout.write(f"{report.bytes} bytes in {wall_s:.1f} s, {per_s:.0f} events/s\n")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _put(record: dict[str, object]) -> None:
    sys.stdout.write(f"{msgspec.json.encode(record).decode()}\n")
    sys.stdout.flush()
