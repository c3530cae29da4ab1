"""What `recd up`, `down` and `status` share.

Owns: their options, one JSON object per line on stdout, and which exit code a failure has.
Never: talks to a service.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TextIO

import typer

from infra.services.errors import ServiceError, StackMismatchError
from infra.services.status import ServiceStatus

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130
DEFAULT_DIRECTORY = Path(".recd")

DirectoryOption = Annotated[Path, typer.Option("--dir", help="Where the services keep data, settings and logs.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout, the summary last.")]


def say(line: str) -> None:
    """Tell a person, on stderr."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def put(record: Mapping[str, object]) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(f"{json.dumps(record)}\n")
    sys.stdout.flush()


def put_services(services: tuple[ServiceStatus, ...], *, as_json: bool, to: TextIO | None = None) -> None:
    """One line a service, for a program or for a person; a person's on stdout unless told otherwise."""
    for service in services:
        if as_json:
            put({"event": "service", **asdict(service)})
        else:
            memory = f"{service.rss_bytes / 2**20:.0f} MiB, pid {service.pid}" if service.pid else service.log_file
            (to or sys.stdout).write(f"{service.name:<14} {service.state:<8} {service.address:<28} {memory}\n")


@contextmanager
def exit_codes(*, as_json: bool) -> Iterator[None]:
    """Turn what goes wrong into the command line's exit codes, with the reason on stderr and in the summary."""
    try:
        yield
    except ServiceError as error:
        say(f"error: {error}")
        if as_json:
            put({"event": "summary", "ok": False, "error": error.what, "remedy": error.remedy})
        raise typer.Exit(BAD_USAGE if isinstance(error, StackMismatchError) else FAILED) from error
    except KeyboardInterrupt as interrupt:
        say("interrupted; what was being started has been stopped")
        if as_json:
            put({"event": "summary", "ok": False, "error": "interrupted", "remedy": ""})
        raise typer.Exit(INTERRUPTED) from interrupt
