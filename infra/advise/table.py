"""Advice for a person: the verdict first, then what it rests on.

Owns the tables. Never computes a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streams.advisor.advice import Advice, AtHold, UnitAdvice
from streams.advisor.verdict import duration

Titled = tuple[str, Table]
_WIDTH: Final = 118
_MOST_NAMES: Final = 4
_STYLES: Final = {"yes": "bold green", "little": "bold yellow", "hardly": "bold red"}


def show(advice: Advice, notes: Sequence[str], console: Console | None = None) -> None:
    """Print everything."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(Text(advice.verdict, style=_STYLES[advice.pays]))
    for line in (_facts(advice), *notes):
        console.print(Text(line, style="dim"))
    for title, rows in (_features(advice), _groups(advice), _apart(advice), _towers(advice), _holds(advice)):
        if rows.row_count:
            console.print(Text(f"\n{title}", style="bold"))
            console.print(rows)
    console.print()


def _facts(advice: Advice) -> str:
    rate = f"one every {duration(round(1000 / advice.samples_per_s))}" if advice.samples_per_s > 0 else "all at once"
    return (
        f"{advice.samples:,} samples in {advice.sessions:,} sessions of {advice.partitions} partition(s) over "
        f"{duration(advice.duration_ms)}; within a session {rate}; a batch of {advice.batch_samples:,} takes "
        f"{duration(advice.fill_ms)} to fill"
    )


def _features(advice: Advice) -> Titled:
    title = "Features in whole sessions; d: unchanged since the user's sample before; predicted: 1 / (1 - (S-1)/S·d)"
    columns = ("feature", "ids", "d", "repeats", "windows", "predicted", "measured", "whole batch", "lookups")
    table = _table(columns, words=("feature",))
    for unit in (*advice.features, *advice.configured):
        name = unit.name if len(unit.features) == 1 else f"{unit.name} (group now)"
        table.add_row(*_unit(name, unit, unit.at[-1]), f"{unit.values_before:,} → {unit.values_after:,}")
    return title, table


def _unit(name: str, unit: UnitAdvice, at: AtHold) -> tuple[str, ...]:
    windows = f"{100 * unit.share_windows:.0f} %" if unit.values_partial is not None else "-"
    shares = (f"{unit.unchanged:.3f}", f"{100 * unit.share_exact:.0f} %", windows)
    return (name, f"{unit.mean_length:.1f}", *shares, *map(_x, (at.predicted, at.measured, at.whole_batch)))


def _groups(advice: Advice) -> Titled:
    columns = ("group", "features", "form", "factor", "lookups", "bytes", "why")
    table = _table(columns, words=("group", "features", "form", "why"))
    for planned in advice.groups:
        unit = planned.unit
        table.add_row(
            unit.name,
            _listed(unit.features),
            planned.form,
            _x(unit.values_before / max(1, planned.values_after)),
            f"{_short(unit.values_before)} → {_short(planned.values_after)}",
            f"{_short(unit.bytes_before)} → {_short(planned.bytes_after)}",
            planned.reason,
        )
    totals = (advice.lookups_before, advice.lookups_after, advice.bytes_before, advice.bytes_after)
    lookups, ids, num_bytes, kept = map(_short, totals)
    factor = _x(advice.lookups_before / max(1, advice.lookups_after))
    table.add_row("all", "", "", factor, f"{lookups} → {ids}", f"{num_bytes} → {kept}", "", style="bold")
    return "Groups to configure", table


def _apart(advice: Advice) -> Titled:
    table = _table(("groups", "each", "together", "as one", "why"), words=("groups", "why"))
    for pair in advice.apart:
        each = " and ".join(map(_x, pair.factors))
        table.add_row(" + ".join(pair.groups), each, _x(pair.factor_apart), _x(pair.factor_as_one), pair.reason)
    return "Better apart", table


def _towers(advice: Advice) -> Titled:
    table = _table(("over", "features", "unchanged", "predicted", "measured"), words=("over",))
    for tower in advice.towers:
        share = f"{100 * tower.unchanged:.0f} %"
        names = _listed(tower.groups)
        table.add_row(names, str(tower.num_features), share, _x(tower.predicted), _x(tower.measured))
    return "Towers that mix groups run once for each distinct tuple of their rows", table


def _holds(advice: Advice) -> Titled:
    columns = ("hold", "S model", "S", "model", "predicted", "measured", "whole batch", "wait p50", "wait p99")
    table = _table(columns, words=("hold",))
    for hold in advice.holds:
        sizes = (f"{hold.modelled_samples_per_session:.2f}", f"{hold.samples_per_session:.2f}")
        factors = map(_x, (hold.modelled, hold.predicted, hold.measured, hold.whole_batch))
        waits = map(duration, (hold.wait_p50_ms, hold.wait_p99_ms))
        table.add_row(duration(hold.hold_ms), *sizes, *factors, *waits)
    return "Hold times: what holding a session's samples together gives, and how long they wait for it", table


def _table(columns: Sequence[str], words: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name in words else "right", header_style="dim", overflow="fold")
    return table


def _listed(names: Sequence[str]) -> str:
    left_out = len(names) - _MOST_NAMES
    return ", ".join(names) if left_out <= 1 else f"{', '.join(names[:_MOST_NAMES])} and {left_out} more"


def _x(factor: float) -> str:
    return f"{factor:.2f}x"


def _short(number: int) -> str:
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)
