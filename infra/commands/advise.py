"""`recd advise`: what deduplication gains on a stream, and which features to group.

Owns the command's options, and writing the picture and the configuration file. Never measures (streams/advisor).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from infra.advise import rewrite, table
from infra.advise.lines import lines
from infra.advise.progress import shown
from infra.advise.rewrite import GroupText
from infra.advise.sampling import Sampled, gather
from infra.advise.source import Tell, Wanted, of_files, of_topic
from infra.clock import Clock
from infra.commands.options import ConfigOption, JsonOption, SetOption
from infra.config import DEFAULT_FILE, Config, load
from infra.report.advice import png
from streams.advisor.advice import Advice, Planned
from streams.advisor.advise import Question
from streams.advisor.advise import advise as ask
from streams.advisor.hold import DEFAULT_HOLDS_MS
from streams.errors import ConfigError
from streams.events.formats.choose import choose
from streams.files.read import Format
from streams.kafka.reach import reach
from streams.kafka.registry import Registry

MOST, INTERRUPTED = 250_000, 130

FileOption = Annotated[
    list[Path] | None, typer.Option("--file", help="A log instead of the topic, as `recd ingest` reads it. Repeatable.")
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Of the files, where names do not say it: csv, tsv, jsonl or parquet.")
]
EventsOption = Annotated[int, typer.Option("--events", min=1, help="Events of each partition: the last ones.")]
BeginningOption = Annotated[bool, typer.Option("--from-beginning", help="The first events instead of the last.")]
HoldOption = Annotated[
    list[float] | None, typer.Option("--hold", metavar="SECONDS", help="A hold time to try. Repeatable.")
]
TowerOption = Annotated[
    list[str] | None, typer.Option("--tower", metavar="A,B,C", help="Features of a tower to measure. Repeatable.")
]
PictureOption = Annotated[Path | None, typer.Option("--picture", help="Default: advice.png in run.directory.")]
WriteOption = Annotated[bool, typer.Option("--write", help="Put the groups into the configuration file; shows a diff.")]
ForceOption = Annotated[bool, typer.Option("--force", help="With --write: replace groups that are there.")]


def advise(
    files: FileOption = None,
    kind: FormatOption = None,
    events: EventsOption = MOST,
    from_beginning: BeginningOption = False,
    holds: HoldOption = None,
    towers: TowerOption = None,
    picture: PictureOption = None,
    write: WriteOption = False,
    force: ForceOption = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sample the interactions topic, or files, and say whether deduplication pays and which features to group.

    Features, histories, session and batch size are those of the configuration. Every factor is measured in batches
    that are really formed from the sample, beside what the formula predicts. Nothing is changed without --write.

    Examples:

        recd advise

        recd advise --file monday.parquet --events 1000000 --hold 5 --hold 60

        recd advise --write --force
    """
    path = config or DEFAULT_FILE
    settings = load(config, overrides or ())
    if force and not write:
        raise ConfigError("--force is for --write; nothing else is replaced")
    if write and not force and rewrite.names_groups(path.read_text(encoding="utf-8")):
        raise ConfigError(f"{path} has groups already; --force replaces them, without --write they are only shown")
    clock = Clock()
    begun_ms = clock.monotonic_ms()
    question = _question(settings, holds, towers)
    try:
        with shown(clock, as_json=as_json) as tell:
            sampled = _sample(files, kind, settings, Wanted(most=events, from_beginning=from_beginning), tell)
            advice = ask(sampled.sample, question, tell)
    except KeyboardInterrupt as interrupt:
        sys.stderr.write("interrupted; nothing was written\n")
        raise typer.Exit(INTERRUPTED) from interrupt
    drawn = picture or settings.run.directory / "advice.png"
    drawn.parent.mkdir(parents=True, exist_ok=True)
    drawn.write_bytes(png(advice))
    notes = _notes(sampled, settings)
    if as_json:
        more = {"notes": notes, "picture": str(drawn), "rejected": sampled.reasons, "late": sampled.account.late}
        for line in lines(advice, more | {"wall_s": round((clock.monotonic_ms() - begun_ms) / 1000, 3)}):
            sys.stdout.write(json.dumps(line) + "\n")
    else:
        table.show(advice, notes)
        sys.stdout.write(f"picture: {drawn}\n")
    if write:
        _write(path, overrides or [], advice, settings)


def _sample(files: list[Path] | None, kind: Format | None, settings: Config, wanted: Wanted, tell: Tell) -> Sampled:
    if files:
        return gather(of_files(files, kind, settings, wanted, tell), settings)
    reach(settings.kafka)
    message_format = choose(settings.format, settings.schema, lambda: Registry(settings.format))
    return gather(of_topic(settings, wanted, tell), settings, message_format=message_format)


def _question(settings: Config, holds: list[float] | None, towers: list[str] | None) -> Question:
    for seconds in holds or []:
        if not 0 <= seconds < float("inf"):
            raise ConfigError(f"--hold {seconds}: give seconds from 0 on")
    wanted = tuple(tuple(name.strip() for name in names.split(",")) for names in towers or [])
    known = settings.schema.feature_names
    for name in (name for tower in wanted for name in tower if name not in known):
        raise ConfigError(f"--tower names {name}, which is no feature; known: {', '.join(known)}")
    return Question(
        batch_samples=settings.batch.samples,
        holds_ms=tuple(round(1000 * seconds) for seconds in holds) if holds else DEFAULT_HOLDS_MS,
        groups={group.name: group.features for group in settings.groups},
        towers=wanted,
    )


def _notes(sampled: Sampled, settings: Config) -> list[str]:
    account, notes = sampled.account, []
    unused = {"late": account.late, "duplicates": account.duplicates, **sampled.reasons}
    told = ", ".join(f"{number:,} {name}" for name, number in unused.items() if number)
    if told:
        notes.append(f"not used of {account.events:,} events: {told}")
    if settings.histories and sampled.begins_late:
        notes.append("histories were built from the sample alone: those of its first events are shorter than in life")
    if dense := [name for group in settings.groups for name in group.dense]:
        notes.append(
            f"dense columns of groups ({', '.join(dense)}) were not measured: a group gains less where they change "
            "more often than its features; --write keeps them with the first feature of their group"
        )
    if sampled.full:
        notes.append("the sample reached the bound on memory, and reading stopped there")
    return notes


def _write(path: Path, overrides: list[str], advice: Advice, settings: Config) -> None:
    before = path.read_bytes().decode()
    advised = [
        GroupText(
            group.unit.name,
            group.unit.features,
            group.form,
            f"{group.reason}; {_factor(group)}",
            _dense_kept(group.unit.features, settings),
        )
        for group in advice.groups
    ]
    groups = [each for each in advised if each.dense or each.form != "exact" or each.features != (each.name,)]
    after = rewrite.with_groups(before, groups)
    fresh = path.with_name(f".{path.name}.advised")
    try:
        fresh.write_bytes(after.encode())
        load(fresh, overrides)
        sys.stderr.write(rewrite.diff(before, after, str(path)) + "\n")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    sys.stderr.write(
        f"wrote {path}. Other groups are another schema: drain a running sessionizer first (`recd ingest --end`), and "
        "train on mini-batch topics of their own (topics.minibatches)\n"
    )


def _dense_kept(features: tuple[str, ...], settings: Config) -> tuple[str, ...]:
    """Dense features that stay with these: those of every configured group whose first feature is among them."""
    return tuple(name for group in settings.groups if group.features[0] in features for name in group.dense)


def _factor(group: Planned) -> str:
    return f"{group.unit.values_before / max(1, group.values_after):.2f}x"
