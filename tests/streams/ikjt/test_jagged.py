"""Rows of different lengths: taking, joining, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streams.ikjt.dedup import check_rows_distinct
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.transforms import Clip
from streams.ikjt.transforms_rows import transform_rows
from streams.ikjt.windows import PartialIkjt

ROWS = Jagged.from_lists([[1, 2], [], [3], [4, 5, 6]])


def test_rows_are_taken_in_any_order_with_repeats() -> None:
    taken = ROWS.take(np.asarray([3, 1, 0, 3]))
    assert taken.to_lists() == [[4, 5, 6], [], [1, 2], [4, 5, 6]]
    taken.validate()


def test_no_rows_can_be_taken_from_any_rows() -> None:
    assert ROWS.take(np.asarray([], dtype=np.int64)).to_lists() == []
    assert Jagged.from_lists([]).take(np.asarray([], dtype=np.int32)).to_lists() == []


def test_rows_that_are_all_empty_can_be_taken() -> None:
    assert Jagged.from_lists([[]]).take(np.asarray([0, 0, 0])).to_lists() == [[], [], []]


def test_rows_are_counted_from_the_end_below_zero() -> None:
    assert ROWS.take(np.asarray([-1, -4])).to_lists() == [[4, 5, 6], [1, 2]]


@pytest.mark.parametrize("row", [4, -5, 2**40])
def test_a_row_that_does_not_exist_is_refused(row: int) -> None:
    with pytest.raises(IndexError, match=f"row {row} of 4"):
        ROWS.take(np.asarray([0, row]))


@pytest.mark.parametrize("rows", [[1.7], ["1"], [True, False], [[0, 1]], [2**64 - 1]])
def test_rows_are_chosen_by_integers_alone(rows: list[object]) -> None:
    with pytest.raises(IndexError, match="rows are chosen by one row of int64, not by"):
        ROWS.take(np.asarray(rows))


@pytest.mark.parametrize("offsets", [[0, 100], [0, -5], [-3, 2], [2**50, 2**50 + 3]])
def test_offsets_beyond_the_values_are_never_followed(offsets: list[int]) -> None:
    broken = Jagged(np.arange(3), np.asarray(offsets))
    with pytest.raises(ValueError, match="offsets do not fit the values"):
        broken.take(np.asarray([0]))
    with pytest.raises(ValueError, match="rows: offsets"):
        transform_rows(broken, [Clip(low=0, high=1)])
    with pytest.raises(ValueError, match="offsets"):
        check_rows_distinct(Ikjt("g", {"k": broken}, np.zeros(1, np.int32)))


def test_weights_that_are_too_few_are_never_read_beyond() -> None:
    with pytest.raises(ValueError, match="offsets do not fit the values"):
        Jagged(np.arange(3), np.asarray([0, 3]), np.zeros(1, np.float32)).take(np.asarray([0]))


@pytest.mark.parametrize(("start", "length"), [(1, 5), (2**30, 2), (-1, 1)])
def test_windows_beyond_their_buffer_are_never_read(start: int, length: int) -> None:
    buffer = Jagged.from_lists([[1, 2, 3]])
    at, long, first = (np.asarray([number], np.int32) for number in (start, length, 0))
    with pytest.raises(ValueError, match="a slice reaches beyond the values"):
        _ = PartialIkjt("g", {"k": buffer}, at, long, first).features


def test_weights_follow_their_values_and_dtypes_stay() -> None:
    rows = Jagged(
        np.asarray([1, 2, 3], dtype=np.int32), offsets_of(np.asarray([2, 1])), np.asarray([0.5, 1, 2], dtype=np.float32)
    )
    taken = rows.take(np.asarray([1, 0]))
    assert taken.values.dtype == np.int32
    assert taken.values.tolist() == [3, 1, 2]
    assert taken.weights is not None
    assert taken.weights.dtype == np.float32
    assert taken.weights.tolist() == [2, 0.5, 1]


def test_parts_are_joined_row_after_row() -> None:
    assert Jagged.concat([ROWS, ROWS.take(np.asarray([2]))]).to_lists() == [[1, 2], [], [3], [4, 5, 6], [3]]


def test_weighted_and_unweighted_parts_are_not_joined() -> None:
    weighted = Jagged(ROWS.values, ROWS.offsets, np.ones(6, dtype=np.float32))
    with pytest.raises(ValueError, match=r"give the others weights of 1\.0"):
        Jagged.concat([ROWS, weighted])


IDS = np.asarray([1, 2], dtype=np.int64)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (Jagged(IDS, np.asarray([1, 2])), "a: offsets must be one-dimensional int64 and start at 0"),
        (Jagged(IDS, np.asarray([], dtype=np.int64)), "start at 0"),
        (Jagged(IDS, np.asarray([0, 3, 2])), "a: offsets decrease at row 1"),
        (Jagged(IDS, np.asarray([0, 1])), "a: offsets end at 1 but there are 2 values"),
        (Jagged(IDS.astype(np.float64), np.asarray([0, 2])), "a: values must be one row of int32 or int64 ids"),
        (Jagged(IDS, np.asarray([0, 2]), np.ones(1, np.float32)), "a: 1 weights for 2 values"),
        (Jagged(IDS, np.asarray([0, 2]), np.ones(2)), "a: weights must be float32"),  # type: ignore[arg-type]
    ],
)
def test_broken_rows_are_refused_by_name(rows: Jagged, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows.validate("a")


def test_lengths_whose_sum_wraps_around_are_refused() -> None:
    rows = Jagged(np.asarray([], dtype=np.int64), np.asarray([0, 2**62, -(2**63), -(2**62), 0], dtype=np.int64))
    with pytest.raises(ValueError, match="decrease"):
        rows.validate()


def test_rows_say_how_many_they_are_and_not_what_they_hold() -> None:
    assert repr(ROWS) == "Jagged(4 rows, 6 int64 values)"
    weighted = Jagged(np.zeros(2, np.int32), np.asarray([0, 2]), np.ones(2, np.float32))
    assert repr(weighted) == "Jagged(1 rows, 2 int32 values, weighted)"


def test_weights_of_more_than_one_number_a_value_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a: weights must be one number a value, not of shape \(2, 1\)"):
        Jagged(np.zeros(2, np.int64), np.asarray([0, 2]), np.ones((2, 1), np.float32)).validate("a")


def test_a_negative_row_counts_from_the_end_and_one_beyond_either_end_is_an_error() -> None:
    rows = Jagged.from_lists([[1], [2, 3]])
    assert (rows.row(-1).tolist(), rows.row(-2).tolist()) == ([2, 3], [1])
    for beyond in (2, -3):
        with pytest.raises(IndexError):
            rows.row(beyond)


@pytest.mark.parametrize("row", [[1.5], ["7"], [True], [[1, 2]], [2**63], [2**70], 7])
def test_lists_of_anything_but_integers_are_refused_by_their_row(row: list[int]) -> None:
    with pytest.raises(ValueError, match=r"row 1 is .*; a row is a list of integers of 64 bits"):
        Jagged.from_lists([[1], row])


def test_lists_in_place_of_arrays_are_refused() -> None:
    lists: Any = [1, 2]
    with pytest.raises(TypeError, match=r"values must be a NumPy array, not list; Jagged\.from_lists"):
        Jagged(lists, np.asarray([0, 2]))
    with pytest.raises(TypeError, match="offsets must be a NumPy array, not list"):
        Jagged(IDS, lists)
    with pytest.raises(TypeError, match="weights must be a NumPy array, not list"):
        Jagged(IDS, np.asarray([0, 2]), lists)


def test_rows_are_built_of_lengths_and_those_are_not_taken_for_offsets() -> None:
    lengths = np.asarray([0, 2])
    assert Jagged.from_lengths(IDS, lengths).to_lists() == [[], [1, 2]]
    for given in ([0, 1, 1], [1, 1]):
        with pytest.raises(ValueError, match=r"rows: offsets .* if these are lengths, use Jagged\.from_lengths"):
            Jagged(IDS, np.asarray(given)).validate("rows")
    with pytest.raises(ValueError, match="offsets end at 3 but there are 2 values"):
        Jagged.from_lengths(IDS, np.asarray([1, 2]))


@pytest.mark.parametrize("lengths", [[1.5, 0.5], [[1, 1]], [True, True]])
def test_lengths_are_one_row_of_integers(lengths: list[object]) -> None:
    with pytest.raises(ValueError, match="lengths must be one row of integers"):
        Jagged.from_lengths(np.asarray([1, 2]), np.asarray(lengths))
