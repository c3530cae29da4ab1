"""The partial form: rows that are windows of their session's buffer, and what is left when they are stored once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import _lay_out, _layout, deduplicate_windows, window_values
from streams.ikjt.windows import Group, PartialIkjt
from tests.streams.ikjt.strategies import feature_groups, shifting_groups
from tests.streams.ikjt.test_dedup import same_ikjt, same_rows

Row = tuple[object, ...]


def brute_force(rows: list[Row], session_id: list[int]) -> tuple[list[object], list[tuple[int, int]]]:
    """The rule of the module, word by word: all buffers one after the other, and (start, length) of each new row."""
    buffers: dict[int, list[object]] = {}
    windows: dict[Row, tuple[int, int]] = {}
    for row, session in zip(rows, session_id, strict=True):
        if row in windows:
            continue
        buffer = buffers.setdefault(session, [])
        found = [start for start in range(len(buffer)) if tuple(buffer[start : start + len(row)]) == row]
        if not found:
            kept = max(
                k for k in range(len(row) + 1) if k <= len(buffer) and tuple(buffer[len(buffer) - k :]) == row[:k]
            )
            found = [len(buffer) - kept]
            buffer += row[kept:]
        windows[row] = (session, found[0])
    base, total = {}, 0
    for session, buffer in buffers.items():
        base[session] = total
        total += len(buffer)
    place = [(base[session] + start if row else 0, len(row)) for row, (session, start) in windows.items()]
    return [value for buffer in buffers.values() for value in buffer], place


def same_group(left: Group, right: Group) -> bool:
    """Equal in every bit and in form."""
    if isinstance(left, PartialIkjt) and isinstance(right, PartialIkjt):
        windows = [(left.start, right.start), (left.length, right.length)]
        return (
            left.keys == right.keys
            and same_ikjt(left.to_exact(), right.to_exact())
            and all(a.dtype == b.dtype and a.tolist() == b.tolist() for a, b in windows)
            and all(same_rows(left.buffers[key], right.buffers[key]) for key in left.keys)
        )
    return isinstance(left, Ikjt) and isinstance(right, Ikjt) and same_ikjt(left, right)


def sessions_of(data: st.DataObject, size: int) -> npt.NDArray[np.uint64]:
    return np.asarray(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)), dtype=np.uint64)


def assert_it_is_what_the_rule_gives(features: dict[str, Jagged], session_id: npt.NDArray[np.uint64]) -> None:
    """Against the brute force, the exact form, and the samples themselves."""
    exact = deduplicate("g", features)
    group = deduplicate_windows("g", features, session_id)
    group.validate()
    assert same_ikjt(group.to_exact(), exact)
    assert all(same_rows(rows, features[key]) for key, rows in group.expand().items())
    assert group.num_values == window_values(exact, session_id) <= exact.num_values
    assert group.num_values_expanded == exact.num_values_expanded
    lengths = {tuple(rows.offsets.tolist()) for rows in features.values()}
    assert isinstance(group, PartialIkjt if len(lengths) == 1 else Ikjt)
    if isinstance(group, PartialIkjt):
        buffer, windows = brute_force(rows_of(features), session_id.tolist())
        stored = rows_of(
            {key: Jagged(b.values, np.asarray([0, len(b.values)]), b.weights) for key, b in group.buffers.items()}
        )
        assert list(zip(group.start.tolist(), group.length.tolist(), strict=True)) == windows
        assert list(stored[0]) == buffer


def rows_of(features: dict[str, Jagged]) -> list[Row]:
    """Rows of tuples: the values of all features at a place, and the bits of their weights."""
    first, *_ = features.values()
    columns: list[list[object]] = []
    for rows in features.values():
        columns.append(rows.values.tolist())
        if rows.weights is not None:
            columns.append(rows.weights.view(np.int32).tolist())
    places = list(zip(*columns, strict=True))
    return [tuple(places[first.offsets[r] : first.offsets[r + 1]]) for r in range(first.num_rows)]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_rows_in_any_sessions_equal_the_brute_force(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=12))
    sessions = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    assert_it_is_what_the_rule_gives({"a": Jagged.from_lists(rows)}, np.asarray(sessions, dtype=np.uint64))


@settings(max_examples=100, deadline=None)
@given(feature_groups(), st.data())
def test_any_features_have_the_partial_form_or_else_the_exact_one(
    features: dict[str, Jagged], data: st.DataObject
) -> None:
    size = next(iter(features.values())).num_rows
    assert_it_is_what_the_rule_gives(features, sessions_of(data, size))


@settings(max_examples=100, deadline=None)
@given(shifting_groups(), st.data())
def test_values_whose_hashes_all_collide_are_never_merged(features: dict[str, Jagged], data: st.DataObject) -> None:
    exact = deduplicate("g", features)
    session_id = sessions_of(data, exact.num_samples)
    honest = _layout(exact, session_id)
    assert honest is not None
    for mask in (np.uint64(0), np.uint64(1)):
        collided = _layout(exact, session_id, mask)
        assert collided is not None
        assert [part.tolist() for part in collided] == [part.tolist() for part in honest]


@settings(max_examples=100, deadline=None)
@given(shifting_groups(), st.data())
def test_histories_that_shift_and_grow_equal_the_brute_force(features: dict[str, Jagged], data: st.DataObject) -> None:
    size = next(iter(features.values())).num_rows
    assert_it_is_what_the_rule_gives(features, sessions_of(data, size))


def test_a_history_that_shifts_by_one_costs_one_value_a_sample() -> None:
    clicks = list(range(1000))
    rows = Jagged.from_lists([clicks[b : b + 50] for b in range(200)])
    assert window_values(rows, np.zeros(200, dtype=np.uint64)) == 50 + 199
    assert deduplicate("g", {"a": rows}).num_values == 200 * 50


def test_a_history_that_grows_is_stored_once() -> None:
    rows = Jagged.from_lists([list(range(b)) for b in range(20)])
    assert window_values(rows, np.zeros(20, dtype=np.uint64)) == 19


def test_sessions_do_not_share_windows() -> None:
    rows = Jagged.from_lists([[1, 2, 3], [2, 3, 4]])
    assert window_values(rows, np.asarray([5, 5], dtype=np.uint64)) == 4
    assert window_values(rows, np.asarray([5, 6], dtype=np.uint64)) == 6


def test_features_of_different_lengths_fall_back_to_the_exact_form() -> None:
    features = {"a": Jagged.from_lists([[1, 2], [2, 3]]), "b": Jagged.from_lists([[1], [1]])}
    ikjt = deduplicate("g", features)
    assert window_values(ikjt, np.zeros(2, dtype=np.uint64)) == ikjt.num_values


def test_values_that_agree_with_other_weights_are_not_the_same() -> None:
    offsets = np.asarray([0, 2, 4], dtype=np.int64)
    values = np.asarray([1, 2, 2, 3])
    weights = np.asarray([1, 1, 5, 1], dtype=np.float32)
    assert window_values(Jagged(values, offsets, weights), np.zeros(2, dtype=np.uint64)) == 4
    assert window_values(Jagged(values, offsets), np.zeros(2, dtype=np.uint64)) == 3


def test_an_empty_batch_has_no_values() -> None:
    assert window_values(Jagged.from_lists([]), np.zeros(0, dtype=np.uint64)) == 0
    assert window_values(Jagged.from_lists([[], []]), np.zeros(2, dtype=np.uint64)) == 0


def test_a_session_id_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match=r"session_id must have one id for each of 2 samples, not shape \[1\]"):
        window_values(Jagged.from_lists([[1], [2]]), np.zeros(1, dtype=np.uint64))


def test_the_example_of_the_module() -> None:
    group = deduplicate_windows(
        "g", {"a": Jagged.from_lists([[1, 2, 3], [2, 3, 4], [1, 2, 3]])}, np.zeros(3, np.uint64)
    )
    assert isinstance(group, PartialIkjt)
    assert group.buffers["a"].to_lists() == [[1, 2, 3, 4]]
    assert (group.start.tolist(), group.length.tolist(), group.inverse.tolist()) == ([0, 1], [3, 3], [0, 1, 0])
    assert repr(group) == "PartialIkjt(g: a; 3 samples, 2 windows, 4 values, factor 2.25)"


def test_dense_columns_of_the_group_stay_with_their_rows() -> None:
    rows = Jagged.from_lists([[1, 2], [1, 2], [2, 3], [2, 3]])
    dense = np.asarray([[0.0], [-0.0], [1.0], [1.0]], dtype=np.float32)
    group = deduplicate_windows("g", {"a": rows}, np.zeros(4, np.uint64), dense, ["age"])
    group.validate()
    assert group.inverse.tolist() == [0, 1, 2, 2]
    assert (group.num_values, group.dense_names) == (3, ("age",))
    expanded = group.expand_dense()
    assert expanded is not None
    assert expanded.tobytes() == dense.tobytes()


def test_rows_are_looked_for_only_as_far_back_as_histories_reach() -> None:
    symbols = np.asarray(
        [7, 8, *range(100, 150), 8, 9], dtype=np.int64
    )  # the last row overlaps, the row before does not
    offsets = np.asarray([0, 2, 52, 54], dtype=np.int64)
    order, owners = np.arange(3), np.zeros(3, dtype=np.int64)
    near = np.asarray([*symbols[:52], 7, 8], dtype=np.int64)
    assert _lay_out(near, offsets, order, owners, 4096)[2].tolist() == [0, 2, 0]
    assert _lay_out(near, offsets, order, owners, 4)[2].tolist() == [0, 2, 52]
    assert len(_lay_out(symbols, offsets, order, owners, 4)[0]) == 54


def test_many_short_rows_of_one_session_take_time_in_proportion_to_their_number() -> None:
    rows = Jagged(np.arange(40_000, dtype=np.int64), np.arange(40_001, dtype=np.int64))
    assert window_values(rows, np.zeros(40_000, dtype=np.uint64)) == 40_000


def test_rows_of_a_hundred_thousand_values_shift_like_short_ones() -> None:
    clicks = np.arange(100_003, dtype=np.int32)
    rows = Jagged(np.concatenate([clicks[b : b + 100_000] for b in range(4)]), np.arange(5, dtype=np.int64) * 100_000)
    group = deduplicate_windows("g", {"a": rows}, np.zeros(4, dtype=np.uint64))
    assert isinstance(group, PartialIkjt)
    assert (group.num_values, group.start.tolist()) == (100_003, [0, 1, 2, 3])
    assert same_rows(group.expand()["a"], rows)


def broken(**changes: object) -> PartialIkjt:
    group = deduplicate_windows("g", {"a": Jagged.from_lists([[1, 2, 3], [2, 3, 4], [9]])}, np.asarray([1, 1, 2]))
    assert isinstance(group, PartialIkjt)
    return replace(group, **changes)  # type: ignore[arg-type]


def test_windows_that_leave_their_buffer_are_refused_by_row() -> None:
    broken().validate()
    for start, length, row in (([0, 1, 3], [3, 3, 2], 2), ([0, 2, 4], [3, 3, 1], 1), ([-1, 1, 4], [3, 3, 1], 0),
                               ([0, 1, 5], [3, 3, 1], 2), ([0, 1, 6], [3, 3, 0], 2), ([0, 1, 4], [3, -3, 1], 1),
                               ([0, 1, 4], [3, 2**31 - 1, 1], 1)):  # fmt: skip
        moved = broken(start=np.asarray(start, np.int32), length=np.asarray(length, np.int32))
        with pytest.raises(ValueError, match=f"group g: row {row} = .* leaves its buffer"):
            moved.validate()
    broken(start=np.asarray([0, 1, 5], np.int32), length=np.asarray([3, 3, 0], np.int32)).validate()


def test_a_partial_group_that_does_not_fit_together_is_refused_in_words() -> None:
    rows = broken().buffers["a"]
    with pytest.raises(ValueError, match=r"group g: length must be \[3\] int32, not int64"):
        broken(length=broken().length.astype(np.int64)).validate()
    with pytest.raises(ValueError, match=r"group g: length must be \[3\] int32"):
        broken(length=broken().length[:2]).validate()
    with pytest.raises(ValueError, match="group g: has no features"):
        broken(buffers={}).validate()
    with pytest.raises(ValueError, match="the buffers of b differ in size from those of a"):
        broken(buffers={"a": rows, "b": Jagged.from_lists([[1, 2, 3, 4, 9]])}).validate()
    with pytest.raises(ValueError, match="sample 0 uses row 1 before the rows below it were used"):
        broken(inverse=np.asarray([1, 0, 2], np.int32)).validate()
    with pytest.raises(ValueError, match="samples use 2 rows, but there are 3"):
        broken(inverse=np.asarray([0, 1, 1], np.int32)).validate()
    with pytest.raises(ValueError, match="dense columns age are named but not there"):
        broken(dense_names=("age",)).validate()
