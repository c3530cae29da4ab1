"""Groups that are found are the groups that were drawn."""

from __future__ import annotations

from dataclasses import replace

from streams.advisor.grouping import Candidate, Search, change_together
from streams.advisor.hold import SESSION, form
from streams.advisor.neighbours import Neighbours
from streams.advisor.sample import Column, Sample
from streams.ikjt.jagged import Jagged
from tests.streams.advisor.streams import Drawn, column, drawn, of_sessions


def search(sample: Sample) -> Search:
    return Search(sample, Neighbours.of(sample), form(sample, SESSION, 256))


def found(sample: Sample) -> list[tuple[str, ...]]:
    return [group.features for group in search(sample).groups()]


def alongside(sample: Sample, **more: Column) -> Sample:
    """The same samples with more features."""
    return replace(sample, columns={**sample.columns, **more})


def mapped(sample: Sample, feature: str, change: int) -> Column:
    """A feature that changes when another does: the same ids, each moved on."""
    rows = sample.columns[feature].rows
    return Column(Jagged(rows.values + change, rows.offsets), sample.columns[feature].index)


def test_features_that_change_together_are_one_group_and_independent_ones_are_not() -> None:
    sample = drawn(Drawn(redrawn={"taste": 0.9, "place": 0.9, "ad": 0.0}))
    sample = alongside(sample, mood=mapped(sample, "taste", 1), banner=mapped(sample, "ad", 1))
    assert found(sample) == [("taste", "mood"), ("place",), ("ad", "banner")]


def test_histories_that_shift_together_are_one_group_in_the_partial_form() -> None:
    sample = drawn(Drawn(shifted={"items": 0.7}, length=30))
    sample = alongside(sample, times=mapped(sample, "items", 5))
    (group,) = search(sample).groups()
    assert group.features == ("items", "times")
    assert group.is_partial
    assert group.unit.even


def test_a_list_of_other_lengths_does_not_cost_a_history_its_windows() -> None:
    sample = drawn(Drawn(shifted={"items": 0.7}, length=30))
    newest = sample.columns["items"].rows.to_lists()
    other = column(Jagged.from_lists([newest[row][-2:] for row in sample.columns["items"].index]))
    assert found(alongside(sample, newest=other)) == [("items",), ("newest",)]


def test_what_never_changes_in_a_session_is_one_group_whatever_repeats_between_users() -> None:
    sample = drawn(Drawn(redrawn={"user": 1.0}))
    country = Column(Jagged.from_lists([[1], [2]]), (sample.session % 2).astype("int32"))
    assert found(alongside(sample, country=country)) == [("user", "country")]


def test_features_of_single_samples_are_grouped_only_where_nothing_is_lost() -> None:
    sample = of_sessions([[0], [1], [2]], {"a": [[1], [2], [3]], "b": [[4], [5], [6]]})
    assert found(sample) == [("a", "b")]  # nothing is known to change, and one inverse is saved


def test_changes_are_compared_sample_by_sample() -> None:
    sample = of_sessions([[0, 1, 2, 3]], {"a": [[1], [2], [2], [3]], "b": [[1], [2], [3], [3]]})
    one, other = (search(sample).candidate((name,)) for name in ("a", "b"))
    assert isinstance(one, Candidate)
    assert change_together(one, other) == 1 / 3
