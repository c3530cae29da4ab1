"""The command `recd`.

Owns: the list of commands, loading each one only when it is called, and what a failure looks like: one message that
says what to do, and an exit code. 0 done, 1 failed, 2 bad usage or configuration, 130 interrupted.
Never: does work; `infra.commands` has one file a command.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from infra.services.errors import ServiceError, StackMismatchError
from streams.errors import ConfigError, RecdError

DONE, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130


class Entry(NamedTuple):
    """One line of `recd --help`; importing it waits until the command is called."""

    module: str
    meaning: str


COMMANDS: Final[dict[str, Entry]] = {
    "demo": Entry("infra.commands.demo", "A real log through Kafka, sessions and IKJT into a trained model."),
    "init": Entry("infra.commands.init", "Write a commented recd.toml."),
    "config": Entry("infra.commands.config", "Check the configuration and show every value in force."),
    "up": Entry("infra.commands.up", "Start local Kafka and Redis."),
    "down": Entry("infra.commands.down", "Stop them; their data stays."),
    "status": Entry("infra.commands.status", "Which local services run and answer."),
    "advise": Entry("infra.commands.advise", "Whether deduplication pays, and which features to group."),
    "ingest": Entry("infra.commands.ingest", "A CSV, TSV, Parquet or JSON-lines log into the interactions topic."),
    "route": Entry("infra.commands.route", "Long-running: any topic into an input topic, each user where it belongs."),
    "sessionizer": Entry("infra.commands.sessionizer", "Long-running: events to mini-batches."),
    "trainer": Entry("infra.commands.trainer", "Long-running: mini-batches to a trained model."),
    "lag": Entry("infra.commands.lag", "How far behind each process is."),
    "inspect": Entry("infra.commands.inspect", "Show a mini-batch, a checkpoint or a ledger line."),
    "checkpoint": Entry("infra.commands.checkpoint", "Checkpoints: list, inspect, verify, prune, migrate."),
    "bench": Entry("infra.commands.bench", "A benchmark: ratios, measured in turns in one run."),
}


class LazyGroup(TyperGroup):
    """Lists commands from the table and imports one when it is called: `recd --help` never waits for torch."""

    def __init__(self, **attrs: object) -> None:
        super().__init__(**attrs)  # type: ignore[arg-type]  # Typer's own keywords, passed through.
        self.commands = {name: TyperCommand(name=name, help=entry.meaning) for name, entry in COMMANDS.items()}

    def resolve_command(  # type: ignore[override]  # Typer always passes its own Context; its base has no public name.
        self, ctx: typer.Context, args: list[str]
    ) -> tuple[str | None, TyperCommand | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, _load(name) if command is not None and name is not None else None, rest


def _print_version(wanted: bool) -> None:
    from importlib.metadata import version

    if wanted:
        sys.stdout.write(f"recd {version('recd')}\n")
        raise typer.Exit(DONE)


VersionOption = Annotated[
    bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
]
app = typer.Typer(cls=LazyGroup, add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def recd(
    ctx: typer.Context,
    *,
    show_version: VersionOption = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug logs.")] = False,
) -> None:
    """Train a recommendation model continuously from a Kafka topic, each user feature stored and computed once.

    Examples:

        recd demo                       a real log, end to end, in minutes

        recd init --for my-topic        a configuration to start from

        recd COMMAND --help             options and examples of one command
    """
    from infra import logging

    assert not show_version, "the option's callback has left"
    ctx.obj = debug
    logging.configure("debug" if debug else "info")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    command = typer.main.get_command(app)
    try:
        # Standalone mode reports bad usage itself and leaves by SystemExit.
        command.main(args=list(arguments), prog_name="recd")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else DONE if leaving.code is None else FAILED
    except (RecdError, ServiceError) as error:
        return _refused(error, str(error), arguments)
    except OSError as error:
        return _refused(error, _of_the_system(error), arguments)
    except Exception as error:  # noqa: BLE001  (a program that reads --json gets its summary whatever happens)
        traceback.print_exc()
        return _refused(error, f"{error!r}: this is a bug of recd; please report it with the lines above", arguments)
    return DONE


def _of_the_system(error: OSError) -> str:
    """What the operating system refused, and where."""
    if error.strerror is None:
        return str(error)
    where = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    return f"{where}: {error.strerror}" if where else error.strerror


def _refused(error: Exception, message: str, arguments: Sequence[str]) -> int:
    if "--debug" in arguments:
        traceback.print_exc()
    text = "\n".join([message, *getattr(error, "__notes__", ())])
    sys.stderr.write(f"error: {text}\n")
    if "--json" in arguments:
        summary = {"event": "summary", "ok": False, "error": text, "exit_reason": type(error).__name__}
        sys.stdout.write(json.dumps(summary) + "\n")
    return BAD_USAGE if isinstance(error, ConfigError | StackMismatchError) else FAILED


def _load(name: str) -> TyperCommand:
    """Import the command's module and build its real form. The function has the command's name."""
    function = getattr(importlib.import_module(COMMANDS[name].module), name)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, help=function.__doc__)(function)
    command = typer.main.get_command(alone)
    assert isinstance(command, TyperCommand), f"{name} is a group"
    return command


if __name__ == "__main__":
    main()
