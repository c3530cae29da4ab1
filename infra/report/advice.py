"""The picture of advice: what is gained at which hold time, how fresh it is, where it comes from, what towers keep.

Owns: one figure with four panels, in the colours of `pictures`; every series has a line style, marker or hatch of its
own besides. Never: computes a figure that is drawn; `streams.advisor.advice` holds them.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, NullLocator

from infra.report.pictures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED
from streams.advisor.advice import Advice, Planned, Tower
from streams.advisor.verdict import duration

_MOST_GROUPS: Final = 3
_MOST_BARS: Final = 8
_SERIES: Final = ((RED, "s"), (GREEN, "^"), (PURPLE, "D"))
_FACTORS: Final = (1, 1.2, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500, 1000)
_WAITS_MS: Final = (
    *(1, 10, 100, 1_000, 5_000, 20_000, 60_000, 300_000, 1_200_000, 3_600_000, 14_400_000, 43_200_000),
    *(86_400_000, 259_200_000, 864_000_000, 8_640_000_000),
)


def png(advice: Advice) -> bytes:
    """The figure as a PNG file."""
    verdict = textwrap.wrap(advice.verdict, 110)
    layout = ConstrainedLayoutEngine(w_pad=0.14, h_pad=0.14, rect=(0, 0, 1, 0.965 - 0.027 * len(verdict)))
    figure = Figure(figsize=(13, 9), dpi=130, layout=layout)
    FigureCanvasAgg(figure)
    figure.text(
        0.02, 0.975, "\n".join(verdict), ha="left", va="top", fontsize=12.5, fontweight="bold", linespacing=1.35
    )
    ((gained, fresh), (where, towers)) = figure.subplots(2, 2)
    _draw_factor(gained, advice)
    _draw_wait(fresh, advice)
    _draw_groups(where, advice)
    _draw_towers(towers, advice)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _draw_factor(axes: Axes, advice: Advice) -> None:
    _titled(axes, "Gain: embedding lookups before / after", "samples of a session are held together for", "factor")
    place = np.arange(len(advice.holds))
    measured, model = [hold.measured for hold in advice.holds], [hold.modelled for hold in advice.holds]
    axes.plot(place, measured, color=BLUE, linewidth=2.6, marker="o", label="all, measured")
    axes.plot(place, model, color=BLUE, linewidth=1.3, linestyle=":", label="all, modelled")
    for group, (colour, marker) in zip(_largest(advice), _SERIES, strict=False):
        label = f"{_cut(group.unit.name)}, {group.form}"
        factors = [_factor_at(group, at) for at in range(len(place))]
        axes.plot(place, factors, color=colour, linestyle="--", linewidth=1.6, marker=marker, label=label)
    axes.axhline(1.0, color=GREY, linewidth=0.8)
    _log(axes, _FACTORS, lambda value: f"{value:g}x")
    axes.set_ylim(bottom=min(0.9, *measured))
    _hold_ticks(axes, advice)
    _legend(axes)


def _draw_wait(axes: Axes, advice: Advice) -> None:
    fill = f"a batch fills in {duration(advice.fill_ms)}"
    _titled(axes, "Price: how long a sample waits for its batch", "samples of a session are held together for", "wait")
    place = np.arange(len(advice.holds))
    for share, waits, colour, style, marker in (
        ("99 %", [hold.wait_p99_ms for hold in advice.holds], RED, "--", "s"),
        ("50 %", [hold.wait_p50_ms for hold in advice.holds], BLUE, "-", "o"),
    ):
        label = f"{share} wait less"
        axes.plot(place, np.maximum(1, waits), color=colour, linestyle=style, marker=marker, linewidth=1.8, label=label)
    axes.axhline(max(1, advice.fill_ms), color=GREY, linewidth=1, linestyle=":", label=fill)
    _log(axes, _WAITS_MS, lambda value: duration(round(value)))
    _hold_ticks(axes, advice)
    _legend(axes)


def _draw_groups(axes: Axes, advice: Advice) -> None:
    _titled(axes, "Where it comes from: lookups of each group, whole sessions", "ids looked up", "")
    groups = sorted(advice.groups, key=lambda group: -group.unit.values_before)[:_MOST_BARS]
    place = np.arange(len(groups))
    before = np.array([group.unit.values_before for group in groups])
    after = np.array([group.values_after for group in groups])
    axes.barh(place - 0.2, before, height=0.36, color=ORANGE, label="every sample's own")
    axes.barh(place + 0.2, after, height=0.36, color=BLUE, hatch="//", edgecolor="white", label="distinct")
    for at, (was, kept, group) in enumerate(zip(before, after, groups, strict=True)):
        axes.text(kept, at + 0.2, f" {was / max(1, kept):.2f}x, {group.form}", va="center", fontsize=9)
    left_out = len(advice.groups) - len(groups)
    names = [_cut(group.unit.name) for group in groups]
    axes.set_yticks(place, names)
    axes.set_xlim(0, 1.18 * max(1, before.max(initial=1)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    title = f"{left_out} smaller groups are not drawn" if left_out else None
    _legend(axes, title)


def _draw_towers(axes: Axes, advice: Advice) -> None:
    _titled(axes, "What a tower keeps that mixes groups", "runs saved: samples / distinct tuples", "")
    towers = advice.towers[:_MOST_BARS]
    if not towers:
        axes.text(0.5, 0.5, "fewer than two groups repeat", ha="center", transform=axes.transAxes, color=GREY)
        axes.set_axis_off()
        return
    place = np.arange(len(towers))
    measured, predicted = [tower.measured for tower in towers], [tower.predicted for tower in towers]
    axes.barh(place, measured, height=0.5, color=BLUE, hatch="//", edgecolor="white", label="measured")
    axes.plot(predicted, place, color=RED, marker="D", linestyle="none", label="predicted")
    for at, factor in enumerate(measured):
        axes.text(max(factor, predicted[at]), at, f"   {factor:.2f}x", va="center", fontsize=9)
    axes.set_yticks(place, [_tower_name(tower) for tower in towers])
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    axes.set_xlim(0, 1.2 * max(*measured, *predicted))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.set_ylim(max(3, len(towers)) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    _legend(axes)


def _largest(advice: Advice) -> list[Planned]:
    """The groups with most lookups, of those that gain."""
    gaining = [group for group in advice.groups if _factor_at(group, -1) > 1]
    return sorted(gaining, key=lambda group: -group.unit.values_before)[:_MOST_GROUPS]


def _factor_at(group: Planned, at: int) -> float:
    here = group.unit.at[at]
    return here.partial if group.form == "partial" and here.partial is not None else here.measured


def _tower_name(tower: Tower) -> str:
    names = " + ".join(_cut(name) for name in tower.groups)
    shown = names if len(tower.groups) <= 3 else f"{_cut(tower.groups[0])} … {_cut(tower.groups[-1])}"
    return f"{shown}\n({tower.num_features} features)"


def _hold_ticks(axes: Axes, advice: Advice) -> None:
    axes.set_xticks(np.arange(len(advice.holds)), [duration(hold.hold_ms) for hold in advice.holds])


def _log(axes: Axes, ticks: Sequence[float], text: Callable[[float], str]) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    shown = [tick for tick in ticks if low <= tick <= high]
    # A narrow range holds no round number, or one: then its ends are shown too.
    shown = shown if len(shown) > 1 else sorted({*shown, low * 1.05, high / 1.05})
    axes.set_yticks(shown, [text(tick) for tick in shown])
    axes.yaxis.set_minor_locator(NullLocator())


def _legend(axes: Axes, title: str | None = None) -> None:
    """Below the panel, where it covers nothing."""
    axes.legend(frameon=False, fontsize=9, ncols=3, title=title, loc="upper center", bbox_to_anchor=(0.5, -0.14))


def _titled(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)


def _cut(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"


def _count(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"
