"""`recd status`: which local services run and answer.

Owns: the command's options and output. Never: changes anything.
"""

from __future__ import annotations

import sys

import typer

from infra.commands.services_output import (
    DEFAULT_DIRECTORY,
    FAILED,
    DirectoryOption,
    JsonOption,
    exit_codes,
    put,
    put_services,
)
from infra.services.stack import Stack


def status(directory: DirectoryOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Show the services of a directory. Exit code 0 if all of them answer, else 1.

    States: `running` answers, `silent` runs without answering, `crashed` ended by itself, `stopped` was stopped.

    Examples:

        recd status

        recd status --json | tail -1
    """
    with exit_codes(as_json=as_json):
        found = Stack(directory).status()
        put_services(found.services, as_json=as_json)
    if as_json:
        kind, up = found.kind, found.up
        summary = {"event": "summary", "ok": up, "up": up, "kind": kind, "kafka": found.kafka, "redis": found.redis}
        put(summary | {"directory": found.directory})
    elif not found.services:
        sys.stdout.write(f"no services in {found.directory}; `recd up` starts them\n")
    if not found.up:
        raise typer.Exit(FAILED)
