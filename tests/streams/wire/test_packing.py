"""Integer columns made small: exact at every width and at the edges of the types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.errors import WireError
from streams.wire.layout import Encoding, Kind
from streams.wire.packing import Array, Packed, _candidates, _ends, pack, pack_matrix, plain
from streams.wire.table import Section
from tests.streams.wire.reading import unpack

COMPRESSOR = zstandard.ZstdCompressor(level=3)
DTYPES: list[np.dtype[Any]] = [np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint64)]


def section_of(packed: Packed, column: Array) -> Section:
    return Section(
        kind=Kind.VALUES,
        dtype=column.dtype,
        encoding=packed.encoding,
        width=packed.width,
        name="a",
        columns=1,
        count=len(column),
        position=0,
        size=len(packed),
        base=packed.base,
    )


def there_and_back(packed: Packed, column: Array) -> Array:
    return unpack(section_of(packed, column), np.frombuffer(packed.buffer, dtype=np.uint8))


@st.composite
def columns(draw: st.DrawFn) -> Array:
    """Columns of any dtype whose spread is anything from nothing to the whole type."""
    dtype: np.dtype[Any] = draw(st.sampled_from(DTYPES))
    info = np.iinfo(dtype)
    low = draw(st.one_of(st.just(int(info.min)), st.integers(int(info.min), int(info.max))))
    high = min(int(info.max), low + draw(st.integers(0, 2 ** draw(st.integers(0, 64)))))
    values: list[int] = draw(st.lists(st.integers(low, high), min_size=1, max_size=20))
    return np.asarray(values, dtype=dtype)


def candidates(column: Array) -> list[Packed]:
    """The column in every encoding that it could have."""
    return [each.packed for each in _candidates(column, *_ends(column), rising=True)]


@settings(max_examples=200, deadline=None)
@given(columns())
def test_every_candidate_encoding_gives_the_column_back(column: Array) -> None:
    for packed in [plain(column), pack(column, COMPRESSOR), *candidates(column)]:
        back = there_and_back(packed, column)
        assert back.dtype == column.dtype
        assert back.tolist() == column.tolist()


@pytest.mark.parametrize("width", range(1, 64))
def test_every_bit_width_works(width: int) -> None:
    column = np.asarray([0, 2**width - 1, 1, 0, 2**width - 1, 2 ** (width - 1)], dtype=np.uint64)
    found = candidates(column)
    assert (Encoding.BITS in {packed.encoding for packed in found}) == (width % 8 != 0 and width < 63)
    assert all(there_and_back(packed, column).tolist() == column.tolist() for packed in found)


def test_a_column_of_one_value_takes_no_bytes() -> None:
    packed = pack(np.full(1000, -7, dtype=np.int32), COMPRESSOR)
    assert (packed.encoding, len(packed)) == (Encoding.CONSTANT, 0)


def test_rising_times_are_stored_as_differences() -> None:
    times = 1_700_000_000_000 + np.cumsum(np.random.default_rng(0).integers(0, 200, 4096))
    packed = pack(times, COMPRESSOR, rising=True)
    assert (packed.encoding, packed.width) == (Encoding.DELTA, 2)


def test_an_inverse_is_stored_as_runs() -> None:
    inverse = np.repeat(np.arange(248, dtype=np.int32), 16)
    packed = pack(inverse, COMPRESSOR, rising=True)
    assert packed.encoding is Encoding.RUNS
    assert len(packed) < 2 * 248 + 150
    assert there_and_back(packed, inverse).tolist() == inverse.tolist()


def test_dense_columns_that_stay_within_a_session_take_a_float_a_session() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.standard_normal((4096, 10)).astype(np.float32)[np.repeat(np.arange(256), 16)]
    packed = pack_matrix(matrix, COMPRESSOR)
    assert packed.encoding is Encoding.FLOATS
    assert len(COMPRESSOR.compress(packed.buffer)) < 256 * 10 * 4


def test_repeated_rows_of_ids_keep_whole_bytes_so_that_zstd_sees_the_repeats() -> None:
    row = np.random.default_rng(0).integers(0, 1_000_000, 101)
    shifted = np.concatenate([row[:100], row[1:101]] * 10)
    assert pack(shifted, COMPRESSOR).encoding is Encoding.FIXED


def test_unrelated_ids_are_packed_to_bits() -> None:
    ids = np.random.default_rng(0).integers(0, 2**20, 4096)
    packed = pack(ids, COMPRESSOR)
    assert (packed.encoding, packed.width) == (Encoding.BITS, 20)


def test_a_column_whose_end_is_unlike_its_beginning_is_judged_by_both() -> None:
    generator = np.random.default_rng(0)
    column = np.concatenate([generator.integers(0, 2**20, 10_000), np.tile(np.arange(100), 900)])
    assert pack(column, COMPRESSOR).encoding is Encoding.FIXED
    assert pack(column[:10_000], COMPRESSOR).encoding is Encoding.BITS


def test_buffers_that_do_not_fit_their_section_are_refused() -> None:
    column = np.arange(100, dtype=np.int64)
    for packed in candidates(column):
        buffer = np.frombuffer(packed.buffer, dtype=np.uint8)
        with pytest.raises(WireError, match="100 values need"):
            unpack(replace(section_of(packed, column), size=len(buffer) - 1), buffer[:-1])


def test_values_beyond_int32_are_refused_instead_of_cut() -> None:
    column = np.asarray([2**31, 2**31 + 1], dtype=np.int64)
    packed = candidates(column)[0]
    narrow = np.zeros(2, dtype=np.int32)
    with pytest.raises(WireError, match="beyond int32"):
        unpack(
            Section(
                kind=Kind.VALUES,
                dtype=narrow.dtype,
                encoding=packed.encoding,
                width=packed.width,
                name="a",
                columns=1,
                count=2,
                position=0,
                size=len(packed),
                base=packed.base,
            ),
            np.frombuffer(packed.buffer, dtype=np.uint8),
        )
