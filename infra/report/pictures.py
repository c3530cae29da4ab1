"""The picture of a demo: did the model learn, what did deduplication save, did it keep up?

Owns: one figure with four panels. Colours are Okabe and Ito's, which people with any colour vision can tell apart, and
every series has a label and a line style of its own besides.
Never: computes a figure that is drawn; `RunPicture` holds them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, FuncFormatter

F64 = npt.NDArray[np.float64]

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#595959"
CYCLE: Final = (BLUE, RED, GREEN, PURPLE, ORANGE)
STYLES: Final = ("-", "--", "-.", ":")
SMOOTH_BATCHES: Final = 20
FEW_POINTS: Final = 30


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One line of a panel."""

    label: str
    x: F64
    y: F64


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RunPicture:
    """Everything that is drawn."""

    title: str
    subtitle: str
    ne: tuple[Curve, ...]
    """Normalized entropy over samples trained."""
    ne_bound: float | None = None
    """The best achievable, where the log's laws are known."""
    factors: Mapping[str, F64] = field(default_factory=dict)
    """Dedup factor of each mini-batch in the order of training, by group."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Bytes of the same mini-batches without and with deduplication, by what is measured."""
    lag: tuple[Curve, ...] = ()
    """Events or samples that wait, over seconds."""


def png(picture: RunPicture) -> bytes:
    """The figure as a PNG file."""
    # The panels leave the top to the titles, which do not take part in the layout.
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, rect=(0, 0, 1, 0.91))
    figure = Figure(figsize=(12, 8), dpi=130, layout=layout)
    FigureCanvasAgg(figure)
    figure.text(0.5, 0.965, picture.title, ha="center", va="center", fontsize=16, fontweight="bold")
    figure.text(0.5, 0.935, picture.subtitle, ha="center", va="center", fontsize=10.5, color=GREY)
    ((learned, saved), (shipped, kept_up)) = figure.subplots(2, 2)
    _draw_ne(learned, picture)
    _draw_factors(saved, picture)
    _draw_sizes(shipped, picture)
    _draw_lag(kept_up, picture)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _draw_ne(axes: Axes, picture: RunPicture) -> None:
    _titled(
        axes, "Learning: normalized entropy, lower is better", "samples trained", "NE (1.0 = knows only the base rate)"
    )
    for curve, colour, style in zip(picture.ne, CYCLE, STYLES, strict=False):
        marker = "o" if len(curve.x) < FEW_POINTS else None  # A line through one point cannot be seen.
        axes.plot(
            curve.x,
            curve.y,
            color=colour,
            linestyle=style,
            linewidth=1.8,
            label=curve.label,
            marker=marker,
            markersize=4,
        )
    axes.axhline(1.0, color=GREY, linewidth=0.8)
    if picture.ne_bound is not None:
        axes.axhline(picture.ne_bound, color=GREEN, linewidth=1.2, linestyle=":", label="best achievable")
    # The first twentieth of a curve, which has seen almost nothing, does not set the scale.
    shown = np.concatenate([np.array([1.0]), *(curve.y[len(curve.y) // 20 :] for curve in picture.ne)])
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    axes.set_ylim(min(low, picture.ne_bound or low) - 0.02, min(1.1, high) + 0.02)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=True, framealpha=0.9, edgecolor="none")


def _draw_factors(axes: Axes, picture: RunPicture) -> None:
    _titled(axes, "Deduplication: values before / after, per mini-batch", "mini-batch, in order of training", "factor")
    for (group, factor), colour, style in zip(picture.factors.items(), CYCLE * 3, STYLES * 4, strict=False):
        number = np.arange(len(factor))
        axes.plot(number, factor, color=colour, linewidth=0.5, alpha=0.35)
        axes.plot(number, _smooth(factor), color=colour, linestyle=style, linewidth=1.8, label=f"{group}")
    axes.axhline(1.0, color=GREY, linewidth=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}x" if f"{value:g}"[0] in "25" else ""))
    if picture.factors:
        axes.legend(frameon=False, title="feature\ngroup", loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_sizes(axes: Axes, picture: RunPicture) -> None:
    _titled(axes, "Size: the same mini-batches, bytes", "bytes", "")
    place = np.arange(len(picture.sizes))
    before = [pair[0] for pair in picture.sizes.values()]
    after = [pair[1] for pair in picture.sizes.values()]
    axes.barh(place - 0.2, before, height=0.36, color=ORANGE, label="expanded (KJT)")
    axes.barh(place + 0.2, after, height=0.36, color=BLUE, hatch="//", edgecolor="white", label="deduplicated (IKJT)")
    for at, (expanded, kept) in zip(place, picture.sizes.values(), strict=True):
        axes.text(expanded, at - 0.2, f" {_bytes(expanded)}", va="center")
        axes.text(kept, at + 0.2, f" {_bytes(kept)}, {expanded / max(1, kept):.2f}x smaller", va="center")
    axes.set_yticks(place, list(picture.sizes))
    axes.set_xlim(0, 1.35 * max([1, *before, *after]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _bytes(value)))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    if picture.sizes:
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _draw_lag(axes: Axes, picture: RunPicture) -> None:
    _titled(axes, "Keeping up: what waits between the stages", "seconds since the start", "events or samples")
    for curve, colour, style in zip(picture.lag, CYCLE, STYLES, strict=False):
        axes.plot(curve.x, curve.y, color=colour, linestyle=style, linewidth=1.8, label=curve.label)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    if picture.lag:
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def _titled(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)


def _smooth(values: F64) -> F64:
    """Running mean over neighbours; the ends use what there is."""
    weight = np.ones(min(SMOOTH_BATCHES, max(1, len(values))))
    return np.asarray(np.convolve(values, weight, "same") / np.convolve(np.ones(len(values)), weight, "same"))


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
