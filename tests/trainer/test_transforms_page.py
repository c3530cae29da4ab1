"""docs/transforms.md is run and loaded as it stands."""

from __future__ import annotations

import doctest
import re
import tomllib
from dataclasses import fields
from pathlib import Path

from infra.config import from_values
from infra.config_layers import Layer, lay
from infra.presets import minimal
from trainer.transforms import FeatureTransforms

PAGE = (Path(__file__).resolve().parents[2] / "docs/transforms.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_what_the_page_runs_prints_what_it_says() -> None:
    example = doctest.DocTestParser().get_doctest("\n".join(blocks("pycon")), {}, "transforms.md", None, 0)
    told: list[str] = []
    ran = doctest.DocTestRunner().run(example, out=told.append)
    assert ran.failed == 0, "".join(told)
    assert ran.attempted > 5


def test_what_the_page_configures_is_accepted_and_every_key_is_on_it() -> None:
    values = minimal("t")
    for name, table in (("liked_films", "film"), ("price_cents", "film")):
        values["features"].append({"name": name, "field": name, "table": table})
    (written,) = blocks("toml")
    config = from_values(lay([Layer("preset", values), Layer("page", tomllib.loads(written))]))
    liked, price = (config.model.transforms_of(name) for name in ("liked_films", "price_cents"))
    assert liked == FeatureTransforms(drop_ids=(0, "unknown"), clip=(1, 99_999), truncate=20, missing=1)
    assert price == FeatureTransforms(bucketize=(100, 500, 2_000))
    assert all(f"`{each.name}`" in PAGE for each in fields(FeatureTransforms))
