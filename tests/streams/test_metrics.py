"""The list of metrics is what is reported: nothing more, nothing less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from streams.metrics import METRICS, Name

PACKAGES = ("sessionizer", "trainer", "infra", "state", "streams")


def test_every_metric_on_the_list_is_reported_somewhere() -> None:
    root = Path(__file__).parents[2]
    sources = [path for package in PACKAGES for path in (root / package).rglob("*.py") if path.name != "metrics.py"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert {name for name in METRICS if f'"{name}"' not in text} == set()


def test_every_name_has_its_line_and_follows_the_conventions() -> None:
    assert set(get_args(Name)) == set(METRICS)
    for name, metric in METRICS.items():
        assert re.fullmatch(r"recd_[a-z0-9_]+", name)
        assert name.endswith("_total") == (metric.kind == "counter"), name
