"""The benchmark of transforms compares equal work: the factors it names, and samples that read the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.transforms import CHAIN, UNCHANGED, groups_of, measure, run, same_samples
from streams.ikjt import Ikjt, PartialIkjt, Transform


def test_factors_are_near_those_that_the_lines_name() -> None:
    found = {about: groups_of(unchanged)["exact"].dedup_factor for about, unchanged in UNCHANGED.items()}
    assert {about: round(factor / about, 1) for about, factor in found.items()} == {4: 1.0, 8: 1.0, 16: 1.1}


def test_the_chain_holds_every_kind_of_transform_and_changes_the_ids() -> None:
    mappings = {"Direct", "Modulo", "Hash"}
    names = {each.__name__ for each in Transform.__args__}
    assert {type(step).__name__ for step in CHAIN} == names - mappings | {"Hash"}
    groups = groups_of(UNCHANGED[8])
    assert isinstance(groups["partial"], PartialIkjt)
    assert not same_samples(run(groups["exact"]), groups["exact"])
    swapped = run(groups["exact"])
    assert same_samples(swapped, run(groups["expanded"]))
    assert isinstance(swapped, Ikjt)
    assert not same_samples(replace(swapped, inverse=swapped.inverse[::-1].copy()), run(groups["expanded"]))


def test_every_line_says_what_it_must_reach() -> None:
    lines = list(measure(rounds=1))
    assert [line["id"] for line in lines] == [
        f"ikjt.transforms.rm1.factor{about}.{form}" for about in UNCHANGED for form in ("exact", "partial")
    ]
    for line in lines:
        context = line["context"]
        assert np.isclose(context["least_ratio"], 1 / (1 / context["factor"] + 0.15), atol=1e-3)
        assert context["held"] is (line["spread"][0] >= context["least_ratio"])
