"""The reference in docs/ is what the code says today."""

from __future__ import annotations

import pytest

import streams.ikjt
from infra.reference import FOLDER, pages

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name], "run `python -m infra.reference` and commit the result"


def test_every_public_name_of_the_ikjt_package_has_its_entry() -> None:
    headings = {line.removeprefix("### ") for line in PAGES["reference/ikjt.md"].splitlines() if line[:4] == "### "}
    assert headings.issuperset(streams.ikjt.__all__)
