"""The picture and the page of a run."""

from __future__ import annotations

import re
import struct

import numpy as np

from infra.report.page import html
from infra.report.pictures import CYCLE, Curve, RunPicture, png

X = np.linspace(0, 1000, 20)
FULL = RunPicture(
    title="a run",
    subtitle="of a test",
    ne=(Curve("recd", X, 0.9 + 0.1 * np.exp(-X / 100)),),
    ne_bound=0.85,
    factors={"history": np.full(40, 3.0), "item": np.ones(40)},
    sizes={"in memory": (3_000_000, 1_000_000)},
    lag=(Curve("events not read", X, X),),
)


def test_the_picture_is_a_png_of_a_legible_size() -> None:
    data = png(FULL)
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert width >= 1400
    assert height >= 900


def test_a_run_that_measured_nothing_still_has_a_picture() -> None:
    assert png(RunPicture(title="empty", subtitle="", ne=()))


def test_equal_runs_give_equal_pictures() -> None:
    assert png(FULL) == png(FULL)


def test_no_two_series_share_a_colour() -> None:
    assert len(set(CYCLE)) == len(CYCLE)


def test_the_page_loads_nothing_and_escapes_what_it_is_given() -> None:
    page = html("a <run>", b"png", {"samples": "1 & 2"}, ["a note"])
    assert "a &lt;run&gt;" in page
    assert "1 &amp; 2" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "<img alt=" in page
