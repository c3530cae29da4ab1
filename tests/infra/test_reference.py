"""The reference in docs/ is what the code says today."""

from __future__ import annotations

import pytest

from infra.reference import FOLDER, pages

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name], "run `python -m infra.reference` and commit the result"
