"""Columns are converted once per distinct value, whatever stands beside it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streams.events.columns import Verdicts, convert, number
from streams.events.ids import Scalar

scalars = st.one_of(st.integers(-2, 2), st.booleans(), st.sampled_from(["1", "x", ""]), st.just(0.5), st.none())


def column(values: list[Scalar], asked: list[Scalar]) -> tuple[list[float], dict[int, str]]:
    """The column, and details by position; `asked` gets every value the rule was asked about."""

    def rule(value: Scalar) -> float:
        asked.append(value)
        return number(value)

    verdicts = Verdicts()
    positions = np.arange(len(values))
    found = convert(values, rule, np.float64, field="f", positions=positions, verdicts=verdicts)
    return found.tolist(), {position: error.detail for position, error in verdicts.found.items()}


@given(st.lists(scalars, max_size=30))
def test_a_column_is_what_each_value_would_give_alone_and_asks_once_for_each_distinct_one(values: list[Scalar]) -> None:
    asked: list[Scalar] = []
    found, wrong = column(values, asked)
    alone = [column([value], []) for value in values]
    assert found == [each[0][0] for each in alone]
    assert wrong == {i: each[1][0] for i, each in enumerate(alone) if each[1]}
    assert len(asked) == len({(type(value), value) for value in values})
