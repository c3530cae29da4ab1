"""What a demo shows while it runs: a live table on a terminal, plain lines elsewhere, JSON lines for a program.

Owns: three ways to show the same reading. Results go to stdout, everything else to stderr.
Never: reads a metric.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from infra.demo.progress import Reading

PLAIN_EVERY_MS: Final = 2_000


class Screen(Protocol):
    """Where a demo tells what happens."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, line: str) -> None:
        """Something happened."""

    def show(self, reading: Reading, events_per_s: float) -> None:
        """Where the run is."""


def chosen(*, as_json: bool) -> Screen:
    """The screen that fits where stderr goes."""
    if as_json:
        return Lines(as_json=True)
    return Board() if sys.stderr.isatty() else Lines(as_json=False)


class Board:
    """A table that is redrawn in place."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        self._console.print(line, highlight=False)

    def show(self, reading: Reading, events_per_s: float) -> None:
        table = Table(box=None, show_header=False, padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(justify="right")
        for name, value in described(reading, events_per_s).items():
            table.add_row(name, value)
        self._live.update(table)


class Lines:
    """One line now and then; as JSON for a program."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._shown_ms = -PLAIN_EVERY_MS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def say(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def show(self, reading: Reading, events_per_s: float) -> None:
        if reading.wall_ms - self._shown_ms < PLAIN_EVERY_MS:
            return
        self._shown_ms = reading.wall_ms
        if self._as_json:
            put({"event": "progress", **as_values(reading), "events_per_s": round(events_per_s, 1)})
        else:
            self.say(" · ".join(f"{name} {value}" for name, value in described(reading, events_per_s).items()))


def put(record: Mapping[str, object]) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def as_values(reading: Reading) -> dict[str, object]:
    """A reading as a JSON object holds it."""
    return {name: getattr(reading, name) for name in reading.__dataclass_fields__}


def described(reading: Reading, events_per_s: float) -> dict[str, str]:
    """A reading in words and rounded numbers."""
    factors = "  ".join(f"{group} {factor:.2f}x" for group, factor in sorted(reading.factors.items()))
    return {
        "events read": f"{reading.events:,} ({events_per_s:,.0f}/s)",
        "behind": f"{reading.lag_events:,} events",
        "open sessions": f"{reading.open_sessions:,} ({reading.held:,} samples)",
        "trained": f"{reading.trained:,} of {reading.emitted:,} emitted",
        "dedup, last batch": factors or "-",
        "NE": f"{_ratio(reading.ne_window)} (lifetime {_ratio(reading.ne_lifetime)})",
    }


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
