"""A model that cannot be learning is named, with what to look at; one that can is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from infra.concerns import ENOUGH_SAMPLES, concerns


def metrics(samples: int = ENOUGH_SAMPLES, base_rate: float = 0.3, ne: float | None = 0.9) -> dict[str, Any]:
    window = {"samples": samples, "base_rate": base_rate, "ne": ne}
    return {"click": {"window": window, "lifetime": window}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (metrics(base_rate=0.0, ne=None), "every label is 0, so there is nothing to learn; check labels.click"),
        (metrics(base_rate=1.0, ne=None), "every label is 1"),
        (metrics(ne=1.45), "NE 1.45 is worse than knowing only the base rate"),
    ],
)
def test_what_spoils_a_model_is_told_with_its_likely_cause(given: dict[str, Any], words: str) -> None:
    (sentence,) = concerns(given).values()
    assert words in sentence


@pytest.mark.parametrize(
    "given", [metrics(), metrics(ne=1.05), metrics(samples=10, base_rate=0.0), metrics(ne=None), {}]
)
def test_nothing_is_said_without_reason(given: dict[str, Any]) -> None:
    assert concerns(given) == {}
