"""Cuts as bytes: what goes in comes out, in any thread, and damage is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sessionizer import cut
from streams.errors import InvariantError

RECORDS = np.array([(1, 2**63, -1.5, True), (-7, 0, 0.0, False)], [("a", "i4"), ("b", "u8"), ("c", "f4"), ("d", "?")])
ARRAYS: cut.Arrays = {
    "records": RECORDS,
    "none": RECORDS[:0],
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "no columns": np.zeros((4, 0), np.int64),
    "flags": np.array([True, False]),
    "strided": np.arange(10, dtype=np.int64)[::3],
}


def same(left: cut.Arrays, right: cut.Arrays) -> bool:
    pairs = [(left[name], right[name]) for name in left]
    return list(left) == list(right) and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def test_header_and_arrays_come_back_as_they_were_and_may_be_written_to() -> None:
    header, arrays = cut.decode(cut.encode({"version": 3, "account": {"events": 5}}, ARRAYS))
    assert header == {"version": 3, "account": {"events": 5}}
    assert same(arrays, ARRAYS)
    for array in arrays.values():
        assert array.flags.writeable
        assert array.flags.aligned


def test_partitions_that_recover_at_once_do_not_disturb_each_other() -> None:
    data = cut.encode({"version": 1}, {f"{name} {i}": array for i in range(40) for name, array in ARRAYS.items()})
    expected = cut.decode(data)[1]
    with ThreadPoolExecutor(8) as threads:
        for _, arrays in threads.map(lambda _: cut.decode(data), range(64)):
            assert same(arrays, expected)


def test_an_array_of_objects_is_refused() -> None:
    with pytest.raises(ValueError, match="arrays of objects cannot be in a cut"):
        cut.encode({}, {"objects": np.array([None])})


@given(st.data())
def test_damage_is_told_or_changes_nothing_but_values(data: st.DataObject) -> None:
    body = bytearray(zstandard.decompress(cut.encode({"version": 1}, ARRAYS)))
    where = data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3))
    for at in where:
        body[at] = data.draw(st.integers(0, 255))
    length = data.draw(st.integers(0, len(body)))
    damaged = bytes(body[: data.draw(st.sampled_from([length, len(body)]))])
    try:
        _, arrays = cut.decode(zstandard.compress(damaged))
    except InvariantError as error:
        assert "a cut is damaged" in str(error)  # noqa: PT017  either outcome is right
    else:
        assert sum(array.nbytes for array in arrays.values()) <= len(damaged)


@pytest.mark.parametrize("data", [b"", b"no zstd", zstandard.compress(b""), zstandard.compress(b"\xff" * 9)])
def test_what_is_no_cut_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(InvariantError, match="recovery must use an older one"):
        cut.decode(data)
