"""Groups as named NumPy arrays: the same arrays, a file without pickles, and no array that goes unread."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from streams.ikjt.arrays import from_arrays, to_arrays
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.minibatch import MiniBatch
from tests.streams.batches import fixed_partial_batch, mini_batches
from tests.streams.ikjt.test_partial import same_group

GROUPS = fixed_partial_batch().groups
Arrays = dict[str, npt.NDArray[Any]]


def saved(arrays: Arrays) -> Arrays:
    """The arrays after a way through a file."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return dict(loaded)


@settings(max_examples=60, deadline=None)
@given(mini_batches())
def test_groups_of_any_form_come_back_from_arrays_and_from_a_file_bit_by_bit(batch: MiniBatch) -> None:
    arrays = to_arrays(batch.groups)
    for carried in (arrays, saved(arrays)):
        back = from_arrays(carried)
        assert len(back) == len(batch.groups)
        assert all(same_group(a, b) for a, b in zip(back, batch.groups, strict=True))


def test_the_arrays_are_those_of_the_groups_and_not_copies() -> None:
    arrays = to_arrays(GROUPS)
    assert arrays["0/inverse"] is GROUPS[0].inverse
    assert arrays["0/features/history/values"] is GROUPS[0].features["history"].values
    assert {"2/buffers/clicks/weights", "2/start", "2/length", "3/dense", "3/dense_names"} < set(arrays)


def test_keys_may_hold_the_separator_and_the_names_of_parts() -> None:
    features = {key: Jagged.from_lists([[1], [2]]) for key in ("a/values", "", "features/x", "dense")}
    (back,) = from_arrays(saved(to_arrays([deduplicate("a/b", features)])))
    assert back.group == "a/b"
    assert back.keys == tuple(features)


def changed(**arrays: npt.NDArray[Any] | None) -> Arrays:
    """Of the partial group with dense columns: some arrays replaced or left out, `__` for a slash."""
    new = {name.replace("__", "/"): array for name, array in arrays.items()}
    whole = to_arrays([GROUPS[2], GROUPS[3]]) | {name: array for name, array in new.items() if array is not None}
    return {name: array for name, array in whole.items() if new.get(name, array) is not None}


ZERO = np.zeros(1, np.int64)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (changed(**{"0__inverse": None}), "group clicks: there is no array 0/inverse"),
        (changed(**{"0__start": None}), "group clicks: there is no array 0/start"),
        (changed(**{"0__buffers__clicks__offsets": None}), "there is no array 0/buffers/clicks/offsets"),
        (changed(**{"0__features__x__values": ZERO}), "group clicks: has features and buffers"),
        (changed(**{"0__wieghts": ZERO}), "group clicks: has no use for an array 0/wieghts"),
        (changed(**{"1__start": ZERO}), "group profile: has no use for an array 1/start"),
        (changed(**{"7__inverse": ZERO}), "no group has an array 7/inverse; 2 groups were found"),
        (changed(**{"1__group": ZERO}), "1/group must be one string, not int64"),
        (changed(**{"1__dense_names": ZERO}), "1/dense_names must be one row of strings"),
        (changed(**{"1__dense_names": None}), r"dense must be \[2, 0\] float32"),
        (changed(**{"1__inverse": np.asarray(0, np.int32)}), "group profile: 1/inverse has no dimensions"),
        (changed(**{"1__inverse": np.asarray([[0]], np.int32)}), "group profile: inverse must be one row of int32"),
        (changed(**{"0__buffers__clicks__weights": np.ones((5, 1), np.float32)}),
         "group clicks, feature clicks: weights must be one number a value"),
        (changed(**{"1__group": np.asarray("clicks")}), "groups do not go together"),
    ],
)  # fmt: skip
def test_arrays_that_are_no_groups_are_refused_by_name(arrays: Arrays, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_arrays(arrays)


def test_a_name_that_numpy_would_shorten_is_refused() -> None:
    for group, key in (("g\0", "a"), ("g", "a\0b")):
        with pytest.raises(ValueError, match="holds a zero character, which NumPy does not keep; rename it"):
            to_arrays([deduplicate(group, {key: Jagged.from_lists([[1]])})])
