"""The drawing of docs/ikjt.md: one batch of six samples as a KJT, as an IKJT and as windows.

Owns: the example and how it is drawn. Every number in the picture is read off what the engine gives for the example.
The card has a ground of its own, so the picture is legible on light and on dark pages. Never: text of the page.

Shapes: B samples, U distinct rows, V values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

import numpy as np

from streams.ikjt import Ikjt, Jagged, PartialIkjt, deduplicate, deduplicate_windows

SESSION: Final = np.asarray([1, 1, 1, 1, 2, 2])
HISTORY: Final = {
    "liked": Jagged.from_lists([[7, 8, 9], [7, 8, 9], [7, 8, 9], [8, 9, 4], [5, 6], [5, 6]]),
    "day": Jagged.from_lists([[1, 1, 2], [1, 1, 2], [1, 1, 2], [1, 2, 3], [4, 4], [4, 4]]),
}
ITEM: Final = {"item": Jagged.from_lists([[11], [12], [4], [13], [14], [15]])}
AGE: Final = np.asarray([[30], [30], [30], [30], [41], [41]], np.float32)

_WIDTH: Final = 1000
_CELL, _HIGH, _GAP, _LEFT = 34, 26, 6, 150
_INK, _SOFT, _PLAIN = "#1d2330", "#5b6472", "#ffffff"
_ROWS: Final = (("#cfe5f5", "#0072b2"), ("#fbe0cf", "#c04f00"), ("#cdeadf", "#00775a"))
"""Fill and line of each distinct row of the history."""
_OTHER: Final = (_PLAIN, "#9aa3b2")


def history() -> Ikjt:
    """The history's group in its exact form, with the age of the user as its dense column."""
    return deduplicate("history", HISTORY, AGE, ["age"])


def windows() -> PartialIkjt:
    """The same in its partial form."""
    group = deduplicate_windows("history", HISTORY, SESSION, AGE, ["age"])
    assert isinstance(group, PartialIkjt)
    return group


def svg() -> str:
    """The picture."""
    exact, partial, item = history(), windows(), deduplicate("item", ITEM)
    parts = [*_kjt(exact, item, 66), *_ikjt(exact, 316), *_windows(partial, 574)]
    height = 788
    style = (
        "text{font-family:system-ui,sans-serif;font-size:14px}.n{font-family:ui-monospace,Consolas,monospace;"
        "text-anchor:middle}.l{text-anchor:end}.h{font-weight:600;font-size:16px}"
    )
    label = "A batch of six samples as a KJT, as an IKJT with an inverse, and as windows of one buffer a session"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">\n'
        f'<style>{style}</style>\n<rect width="{_WIDTH}" height="{height}" rx="12" fill="#f7f8fa"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _kjt(exact: Ikjt, item: Ikjt, y: int) -> Iterator[str]:
    """Every sample with its own rows."""
    rows_of = exact.expand()
    stored = " + ".join(str(len(rows.values)) for rows in rows_of.values())
    yield from _heading("KJT: every sample carries its rows", f"{stored} values of the history", y - 36)
    colours = [_ROWS[u] for u in exact.inverse.tolist()]
    bounds = rows_of["liked"].offsets.tolist()
    for b, (start, end) in enumerate(pairwise(bounds)):
        yield _text((_place(start, b) + _place(end, b)) / 2, y + 2, f"sample {b}" if b == 0 else str(b), "n", _SOFT)
    for line, (key, rows) in enumerate(rows_of.items()):
        yield _text(_LEFT - 20, y + 28 + 34 * line, f"{key} values", "l")
        yield from _rows(rows, colours, y + 10 + 34 * line)
    yield _text(_LEFT - 20, y + 96, "lengths, of both", "l")
    lengths = rows_of["liked"].lengths.tolist()
    for b, (start, end) in enumerate(pairwise(bounds)):
        yield _text((_place(start, b) + _place(end, b)) / 2, y + 96, str(lengths[b]), "n")
    one = deduplicate("item", item.expand()).expand()["item"]
    yield _text(_LEFT - 20, y + 146, "item values", "l")
    yield from _rows(one, [_OTHER] * one.num_rows, y + 128)
    yield _text(_LEFT - 20, y + 180, "lengths", "l")
    for b, length in enumerate(one.lengths.tolist()):
        yield _text(_place(b, b) + _CELL / 2, y + 180, str(length), "n")
    yield _text(_place(7, 6), y + 146, "another one for every sample: nothing repeats", "", _SOFT)


def _ikjt(exact: Ikjt, y: int) -> Iterator[str]:
    """Each distinct row once, under the samples that use it."""
    factor = f"factor {exact.dedup_factor:.2f}"
    stored = " + ".join(str(len(rows.values)) for rows in exact.features.values())
    yield from _heading(
        "IKJT: each distinct row once, and which one a sample uses", f"{stored} values, {factor}", y - 22
    )
    yield from _inverse(exact, y)
    bounds = exact.features["liked"].offsets.tolist()
    middle = [(_place(start, u) + _place(end, u)) / 2 for u, (start, end) in enumerate(pairwise(bounds))]
    for b, u in enumerate(exact.inverse.tolist()):
        top = _place(b, 0) + _CELL / 2
        yield f'<path d="M{top:g} {y + 28}L{middle[u]:g} {y + 60}" stroke="{_ROWS[u][1]}" stroke-width="1.5"/>'
    colours = list(_ROWS)
    for line, (key, rows) in enumerate(exact.features.items()):
        yield _text(_LEFT - 20, y + 80 + 34 * line, f"{key} values", "l")
        yield from _rows(rows, colours, y + 62 + 34 * line)
    yield _text(_LEFT - 20, y + 146, "offsets, of both", "l")
    for u, offset in enumerate(bounds):
        yield _text(_place(offset, max(u - 0.5, 0)), y + 146, str(offset), "n")
    yield _text(_LEFT - 20, y + 180, "dense: age", "l")
    assert exact.dense is not None
    for u, age in enumerate(exact.dense[:, 0].tolist()):
        yield from _cell(_place(u, 0), y + 162, f"{age:g}", _ROWS[u])
    yield _text(_place(4, 0), y + 180, "one line a row, not one a sample", "", _SOFT)


def _windows(partial: PartialIkjt, y: int) -> Iterator[str]:
    """One buffer a session, and where each row lies in it."""
    factor = f"factor {partial.dedup_factor:.2f}"
    stored = " + ".join(str(len(rows.values)) for rows in partial.buffers.values())
    yield from _heading(
        "Partial form: rows are windows of their session's buffer", f"{stored} values, {factor}", y - 22
    )
    yield from _inverse(partial, y)
    bounds = partial.buffers["liked"].offsets.tolist()
    buffer_of = (np.searchsorted(bounds, partial.start, side="right") - 1).tolist()
    windows = zip(partial.start.tolist(), partial.length.tolist(), buffer_of, strict=True)
    for u, (start, length, p) in enumerate(windows):
        left, right, at = _place(start, p), _place(start + length, p), y + 48 + 12 * (u if buffer_of[0] == p else 0)
        yield f'<path d="M{left + 3:g} {at}H{right - 3:g}" stroke="{_ROWS[u][1]}" stroke-width="6"/>'
    yield _text(_LEFT - 20, y + 58, "windows", "l")
    for line, (key, rows) in enumerate(partial.buffers.items()):
        yield _text(_LEFT - 20, y + 90 + 34 * line, f"{key} values", "l")
        yield from _rows(rows, [_OTHER] * rows.num_rows, y + 72 + 34 * line)
    yield _text(_LEFT - 20, y + 156, "buffer offsets", "l")
    for p, offset in enumerate(bounds):
        yield _text(_place(offset, max(p - 0.5, 0)), y + 156, str(offset), "n")
    for line, (name, column) in enumerate((("start", partial.start), ("length", partial.length))):
        yield _text(_place(10, 2) - 14, y + 90 + 34 * line, name, "l")
        for u, value in enumerate(column.tolist()):
            yield from _cell(_place(10 + u, 2), y + 72 + 34 * line, str(value), _ROWS[u])
    yield _text(_LEFT, y + 190, "The second row costs the one value that is new. Age stays one line a row.", "", _SOFT)


def _inverse(group: Ikjt | PartialIkjt, y: int) -> Iterator[str]:
    yield _text(_LEFT - 20, y + 20, "inverse", "l")
    for b, u in enumerate(group.inverse.tolist()):
        yield from _cell(_place(b, 0), y + 2, str(u), _ROWS[u])


def _heading(title: str, right: str, y: int) -> Iterator[str]:
    yield _text(24, y, title, "h")
    yield _text(_WIDTH - 24, y, right, "l", _SOFT)


def _rows(rows: Jagged, colours: Sequence[tuple[str, str]], y: float) -> Iterator[str]:
    """Values as cells, a gap between rows."""
    for r in range(rows.num_rows):
        for k, value in enumerate(rows.row(r).tolist()):
            yield from _cell(_place(int(rows.offsets[r]) + k, r), y, str(value), colours[r])


def _place(cells: float, gaps: float) -> float:
    """Where the next cell begins."""
    return _LEFT + _CELL * cells + _GAP * gaps


def _cell(x: float, y: float, text: str, colours: tuple[str, str]) -> Iterator[str]:
    fill, line = colours
    yield f'<rect x="{x:g}" y="{y:g}" width="{_CELL}" height="{_HIGH}" fill="{fill}" stroke="{line}"/>'
    yield _text(x + _CELL / 2, y + 18, text, "n")


def _text(x: float, y: float, text: str, kind: str, colour: str = _INK) -> str:
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{mark} fill="{colour}">{escape(text)}</text>'
