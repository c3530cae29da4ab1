"""docs/ikjt.md is run as it stands, and its picture shows what TorchRec's types and the engine hold for its example."""

from __future__ import annotations

import doctest
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra import ikjt_drawing
from streams.ikjt import Ikjt, PartialIkjt, deduplicate_windows
from streams.ikjt.torchrec import to_kjt, to_vbe
from tests.streams.ikjt.test_dedup import same_ikjt, same_rows
from tests.streams.ikjt.test_partial import same_group

ROOT = Path(__file__).resolve().parents[2]


def blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names of the page after everything on it was run, and was found to print what it says."""
    example = doctest.DocTestParser().get_doctest("\n".join(blocks("docs/ikjt.md", "pycon")), {}, "ikjt.md", None, 0)
    names: dict[str, Any] = example.globs
    told: list[str] = []
    ran = doctest.DocTestRunner().run(example, out=told.append, clear_globs=False)
    assert ran.failed == 0, "".join(told)
    assert ran.attempted > 30
    return names


def drawn() -> list[tuple[str, list[float]]]:
    """Label and numbers of every line of the picture, from top to bottom, each from left to right."""
    lines: dict[float, list[tuple[float, str]]] = defaultdict(list)
    for x, y, text in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', ikjt_drawing.svg()):
        lines[float(y)].append((float(x), text))
    found: list[tuple[str, list[float]]] = []
    for _, texts in sorted(lines.items()):
        for _, text in sorted(texts):
            if re.fullmatch(r"\d+", text):
                found[-1][1].append(float(text))
            else:
                found.append((text, []))
    return [(label, numbers) for label, numbers in found if numbers]


def test_the_page_says_what_the_code_gives_and_its_example_is_the_one_drawn(page: dict[str, Any]) -> None:
    for key, rows in (ikjt_drawing.HISTORY | ikjt_drawing.ITEM).items():
        assert same_rows(page[key], rows)
    assert np.array_equal(page["age"], ikjt_drawing.AGE)
    assert isinstance(page["aged"], Ikjt)
    assert same_ikjt(page["aged"], ikjt_drawing.history())
    assert isinstance(page["windows"], PartialIkjt)
    without_age = deduplicate_windows("history", ikjt_drawing.HISTORY, ikjt_drawing.SESSION)
    assert same_group(page["windows"], without_age)


def test_every_number_of_the_picture_is_one_of_the_code(page: dict[str, Any]) -> None:
    kjt, vbe = (convert([page["history"], page["shown"]]) for convert in (to_kjt, to_vbe))
    windows, aged = page["windows"], page["aged"]
    offsets = np.cumsum([0, *vbe["liked"].lengths().tolist()]).tolist()
    inverse = vbe.inverse_indices()[1][0].tolist()
    assert drawn() == [
        ("sample 0", [1, 2, 3, 4, 5]),
        ("liked values", kjt["liked"].values().tolist()),
        ("day values", kjt["day"].values().tolist()),
        ("lengths, of both", kjt["day"].lengths().tolist()),
        ("item values", kjt["item"].values().tolist()),
        ("lengths", kjt["item"].lengths().tolist()),
        ("inverse", inverse),
        ("liked values", vbe["liked"].values().tolist()),
        ("day values", vbe["day"].values().tolist()),
        ("offsets, of both", offsets),
        ("dense: age", aged.dense[:, 0].tolist()),
        ("inverse", inverse),
        ("liked values", windows.buffers["liked"].values.tolist()),
        ("start", windows.start.tolist()),
        ("day values", windows.buffers["day"].values.tolist()),
        ("length", windows.length.tolist()),
        ("buffer offsets", windows.buffers["day"].offsets.tolist()),
    ]


def test_the_readme_says_of_ikjt_what_the_code_gives() -> None:
    (block,) = blocks("README.md", "python")
    names: dict[str, Any] = {}
    exec(block, names)  # noqa: S102  (it is our own page)
    said = re.findall(r"^(ikjt\S+)  # (.+)$", block, re.MULTILINE)
    assert len(said) == 2
    for expression, value in said:
        assert str(eval(expression, names)) == value  # noqa: S307  (the same)
