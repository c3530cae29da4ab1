"""S, d and the rate of a sample, and the formulas on them."""

from __future__ import annotations

import pytest

from streams.advisor.neighbours import Neighbours, factor_of, partial_factor_of
from tests.streams.advisor.streams import of_sessions


def test_neighbours_are_pairs_of_one_session() -> None:
    sample = of_sessions([[0, 10, 40], [5], [7, 27]], {"f": [[1], [1], [2], [2], [3], [3]]})
    found = Neighbours.of(sample)
    assert list(zip(found.before.tolist(), found.after.tolist(), strict=True)) == [(0, 1), (1, 2), (4, 5)]
    assert found.changed(sample, "f").tolist() == [False, True, False]
    assert found.samples_per_session == 2.0
    assert found.rate_per_ms == pytest.approx(3 / 60)


def test_a_sample_of_single_samples_has_no_rate_and_one_of_equal_times_an_infinite_one() -> None:
    assert Neighbours.of(of_sessions([[1], [2]], {"f": [[1], [1]]})).rate_per_ms == 0.0
    assert Neighbours.of(of_sessions([[1, 1]], {"f": [[1], [1]]})).rate_per_ms == float("inf")


@pytest.mark.parametrize(("samples", "unchanged", "factor"), [(1.15, 0.9, 1.13), (16.5, 0.9, 6.47), (1.0, 1.0, 1.0)])
def test_the_formula_gives_its_known_values(samples: float, unchanged: float, factor: float) -> None:
    assert factor_of(samples, unchanged) == pytest.approx(factor, abs=0.01)


def test_windows_cost_one_id_a_change() -> None:
    # A session of 11 samples of 50 ids: the first row whole, then one id for each of the ten that follow.
    assert partial_factor_of(11, 0.0, 50) == pytest.approx(11 * 50 / 60)
    assert partial_factor_of(11, 1.0, 50) == pytest.approx(11)
    assert partial_factor_of(11, 0.5, 0) == 1.0
