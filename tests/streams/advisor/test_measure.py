"""What is counted is what the real engine leaves, batch by batch, value by value."""

from __future__ import annotations

import numpy as np
import pytest

from streams.advisor.hold import SESSION, Formed, form
from streams.advisor.measure import Unit, exact, windows
from streams.advisor.sample import Sample
from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.partial import window_values
from tests.streams.advisor.streams import Drawn, drawn, of_sessions

LAWS = Drawn(sessions=150, redrawn={"a": 0.9, "b": 0.3}, shifted={"seen": 0.5}, length=6)


@pytest.fixture(scope="module")
def sample() -> Sample:
    return drawn(LAWS, batch_samples=64)


def batches(sample: Sample, formed: Formed, features: tuple[str, ...]) -> list[Ikjt]:
    """Every batch deduplicated on its values."""
    found = []
    for number in np.unique(formed.batch):
        chosen = formed.order[formed.batch == number]
        rows = {name: sample.columns[name].rows.take(sample.columns[name].index[chosen]) for name in features}
        found.append(deduplicate("group", rows))
    return found


def unit(sample: Sample, features: tuple[str, ...]) -> Unit:
    built = Unit.of(sample, features[0])
    for name in features[1:]:
        built = built.with_(Unit.of(sample, name))
    return built


@pytest.mark.parametrize("hold_ms", [0, 30_000, SESSION])
@pytest.mark.parametrize("features", [("a",), ("a", "b"), ("a", "b", "seen")])
def test_factors_are_those_of_real_batches(sample: Sample, hold_ms: int, features: tuple[str, ...]) -> None:
    formed = form(sample, hold_ms, 64)
    left, real = exact(formed, unit(sample, features)), batches(sample, formed, features)
    assert left.values_before == sum(ikjt.num_values_expanded for ikjt in real)
    assert left.values_after == sum(ikjt.num_values for ikjt in real)
    assert left.rows == sum(ikjt.num_rows for ikjt in real)
    num_bytes = sum(rows.values.nbytes + 8 * rows.num_rows for ikjt in real for rows in ikjt.features.values())
    assert left.bytes_after == num_bytes + sum(ikjt.inverse.nbytes for ikjt in real)


def test_windows_are_those_of_real_batches(sample: Sample) -> None:
    formed = form(sample, 30_000, 64)
    real = 0
    for number, ikjt in enumerate(batches(sample, formed, ("seen",))):
        real += window_values(ikjt, sample.session[formed.order[formed.batch == number]])
    assert windows(formed, unit(sample, ("seen",))) == real


def test_windows_never_hold_more_than_the_exact_form(sample: Sample) -> None:
    for features in (("a",), ("b",), ("seen",)):
        formed = form(sample, SESSION, 64)
        assert windows(formed, unit(sample, features)) <= exact(formed, unit(sample, features)).values_after


def test_rows_of_other_sessions_count_only_in_whole_batches() -> None:
    sample = of_sessions([[0, 1], [2, 3]], {"f": [[7, 8], [7, 8], [7, 8], [9]]})
    formed = form(sample, SESSION, 4)
    assert exact(formed, unit(sample, ("f",))).values_after == 3
    assert exact(formed, unit(sample, ("f",)), within_sessions=True).values_after == 5


def test_only_lists_of_equal_lengths_can_share_windows() -> None:
    sample = of_sessions([[0, 1]], {"a": [[1, 2], [2, 3]], "b": [[1, 2], [2, 3]], "c": [[1], [2, 3]]})
    assert unit(sample, ("a", "b")).even
    assert not unit(sample, ("a", "c")).even
