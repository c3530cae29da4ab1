"""How far advice is: a bar on a terminal, a line now and then elsewhere, JSON for a program.

Owns the showing. All of it goes to stderr, but for JSON. Never knows what is being done.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from infra.advise.source import Tell
from infra.clock import Clock

_LINE_EVERY_MS: Final = 2_000


@contextmanager
def shown(clock: Clock, *, as_json: bool) -> Iterator[Tell]:
    """Somebody to tell."""
    if as_json or not sys.stderr.isatty():
        yield _lines(clock, as_json=as_json)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield show


def _lines(clock: Clock, *, as_json: bool) -> Tell:
    next_ms = clock.monotonic_ms() + _LINE_EVERY_MS

    def show(what: str, done: int, total: int) -> None:
        nonlocal next_ms
        if clock.monotonic_ms() < next_ms:
            return
        next_ms = clock.monotonic_ms() + _LINE_EVERY_MS
        if as_json:
            sys.stdout.write(json.dumps({"event": "progress", "doing": what, "done": done, "of": total}) + "\n")
            sys.stdout.flush()
        else:
            sys.stderr.write(f"{what}: {done:,} of {total:,}\n" if total else f"{what}: {done:,}\n")
            sys.stderr.flush()

    return show
