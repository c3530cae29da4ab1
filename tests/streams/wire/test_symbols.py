"""Numbers as symbols and open bits: every number of 64 bits, and nothing a reader could be misled by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.ikjt.kernels import numbered_rows
from streams.unaligned import padded
from streams.wire.damage import WORDS
from streams.wire.paired import MOST_BITS, pack_paired, read_paired
from streams.wire.ranked import ONCE, pack_ranked, read_ranked
from streams.wire.runs import num_runs, pack_floats, pack_runs, read_floats, read_runs
from streams.wire.symbols import (
    NUM_SYMBOLS,
    OPEN_BITS,
    SMALLEST,
    bits_left,
    get_number,
    put_bits,
    symbol_of,
    symbols_of,
    unzigzag,
    zigzag,
)

Array = npt.NDArray[np.uint64]
U64 = st.one_of(st.integers(0, 20), st.integers(0, 2**64 - 1), st.integers(0, 63).map(lambda bits: 2**bits))
COLUMNS = st.lists(U64, min_size=1, max_size=40).map(lambda values: np.asarray(values, dtype=np.uint64))
REPEATING = st.lists(st.tuples(U64, st.integers(1, 30)), min_size=1, max_size=12).map(
    lambda runs: np.repeat(np.asarray([value for value, _ in runs], np.uint64), [size for _, size in runs])
)


def unpack_ranked(buffer: npt.NDArray[np.uint8], count: int, low: np.uint64, width: int) -> Array:
    out = np.empty(count, np.int64)
    return checked(out, read_ranked(padded(buffer), count, low, width, out)).view(np.uint64)


def unpack_paired(buffer: npt.NDArray[np.uint8], count: int, low: np.uint64, width: int) -> Array:
    behind = np.int64(-77)
    memory = np.full(count + 2, behind)
    found = checked(memory[:count], read_paired(padded(buffer), count, low, width, memory[:count])).view(np.uint64)
    assert memory[count + count % 2] == behind
    return found


def unpack_runs(buffer: npt.NDArray[np.uint8], count: int, base: np.uint64) -> Array:
    out = np.empty(count, np.int64)
    what, rows = read_runs(padded(buffer), count, base, out)
    if not what and out.max() < 2**31 and out.min() >= 0:
        assert rows == numbered_rows(out.astype(np.int32))
    return checked(out, what).view(np.uint64)


def unpack_floats(buffer: npt.NDArray[np.uint8], count: int, columns: int) -> npt.NDArray[np.float32]:
    out = np.empty(count, np.int32)
    return checked(out, read_floats(padded(buffer), count, columns, out)).view(np.float32)


def checked(out: npt.NDArray[Any], what: int) -> npt.NDArray[Any]:
    """The column, unless it is damaged."""
    if what:
        raise ValueError(WORDS[what])
    return out


def test_every_symbol_has_its_range_and_the_ranges_leave_no_gap() -> None:
    expected = 0
    for symbol in range(NUM_SYMBOLS):
        assert int(SMALLEST[symbol]) == expected
        assert symbol_of(SMALLEST[symbol]) == symbol
        expected += 2 ** int(OPEN_BITS[symbol])
        assert symbol_of(np.uint64(expected - 1)) == symbol
    assert expected == 2**64


@settings(max_examples=200, deadline=None)
@given(COLUMNS, st.integers(0, 130))
def test_numbers_come_back_from_any_bit_on(values: Array, start: int) -> None:
    symbols = symbols_of(values)
    words = np.zeros((start + bits_left(symbols)) // 64 + 2, np.uint64)
    end = put_bits(words, start, values - SMALLEST[symbols], OPEN_BITS[symbols])
    assert end == start + bits_left(symbols)
    at, buffer = start, padded(words.view(np.uint8))
    for value, symbol in zip(values.tolist(), symbols, strict=True):
        assert get_number(buffer, np.uint64(at), symbol) == value
        at += int(OPEN_BITS[symbol])
    assert at == end


@settings(max_examples=100, deadline=None)
@given(COLUMNS)
def test_zigzag_is_undone(values: Array) -> None:
    assert [unzigzag(number) for number in zigzag(values)] == values.tolist()


@settings(max_examples=200, deadline=None)
@given(COLUMNS, st.lists(st.integers(0, 39), max_size=60))
def test_ranked_ids_come_back(distinct: Array, chosen: list[int]) -> None:
    ids = np.append(distinct, distinct[np.asarray(chosen, dtype=np.int64) % len(distinct)])
    low = ids.min()
    width = max(1, int(ids.max() - low).bit_length())
    buffer = pack_ranked(ids, low, width)
    assert unpack_ranked(buffer, len(ids), low, width).tolist() == ids.tolist()


@settings(max_examples=200, deadline=None)
@given(COLUMNS, st.lists(st.integers(0, 39), max_size=60), st.integers(0, 2**64 - 1), st.integers(1, MOST_BITS))
def test_paired_ids_come_back(distinct: Array, chosen: list[int], low: int, width: int) -> None:
    ids = np.append(distinct, distinct[np.asarray(chosen, dtype=np.int64) % len(distinct)])
    ids = (ids & np.uint64(2**width - 1)) + np.uint64(low)
    buffer = pack_paired(ids, np.uint64(low), width)
    assert unpack_paired(buffer, len(ids), np.uint64(low), width).tolist() == ids.tolist()


@pytest.mark.parametrize("num_ids", [1, 2, 3, 4, 8191, 8192, 16384, 16385, 40_000])
def test_paired_ids_of_as_many_classes_as_there_are_and_of_more_come_back(num_ids: int) -> None:
    generator = np.random.default_rng(num_ids)
    named = generator.permutation(1 << 20)[: num_ids + 99].astype(np.uint64)
    ids = generator.permutation(np.concatenate([named, named[:num_ids], named[: num_ids // 3]]))
    buffer = pack_paired(ids, np.uint64(0), 20)
    assert buffer[:4].view("<u4")[0] == num_ids
    assert unpack_paired(buffer, len(ids), np.uint64(0), 20).tolist() == ids.tolist()


def test_a_pair_holds_the_first_value_in_its_low_half_and_an_odd_last_one_twice() -> None:
    ids = np.asarray([7, 9, 9, 7, 7, 5, 9], dtype=np.uint64)
    buffer = pack_paired(ids, np.uint64(5), 3)
    assert buffer[:4].view("<u4")[0] == 2
    assert buffer[4:8].tolist() == [0x10, 0x01, 0xF0, 0x11]


def test_frequent_ids_have_small_ranks_and_ids_that_come_once_have_none() -> None:
    ids = np.asarray([7, 9, 9, 7, 7, 5], dtype=np.uint64)
    buffer = pack_ranked(ids, np.uint64(5), 3)
    assert buffer[:4].view("<u4")[0] == 2
    assert buffer[4:10].tolist() == [0, 1, 1, 0, 0, ONCE]


@settings(max_examples=200, deadline=None)
@given(REPEATING)
def test_runs_come_back(column: Array) -> None:
    assert unpack_runs(pack_runs(column, column[0]), len(column), column[0]).tolist() == column.tolist()
    assert num_runs(column) == 1 + int(np.count_nonzero(np.diff(column)))


@settings(max_examples=200, deadline=None)
@given(REPEATING, st.integers(1, 4))
def test_floats_come_back_bit_by_bit(column: Array, columns: int) -> None:
    matrix = np.resize(column.astype(np.uint32).view(np.float32), (len(column), columns))
    back = unpack_floats(pack_floats(matrix), matrix.size, columns)
    assert back.view(np.uint32).tolist() == np.ascontiguousarray(matrix).view(np.uint32).reshape(-1).tolist()


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_buffers_are_refused_or_give_as_many_values(data: st.DataObject) -> None:
    column = data.draw(REPEATING)
    buffers = {
        "ranked": pack_ranked(column, column.min(), max(1, int(column.max() - column.min()).bit_length())),
        "paired": pack_paired(column & np.uint64(2**MOST_BITS - 1), np.uint64(0), MOST_BITS),
        "runs": pack_runs(column, column[0]),
        "floats": pack_floats(column.astype(np.uint32).view(np.float32)[:, None]),
    }
    which = data.draw(st.sampled_from(sorted(buffers)))
    buffer = buffers[which].copy()
    for _ in range(data.draw(st.integers(1, 3))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    buffer = buffer[: data.draw(st.integers(len(buffer) - 3, len(buffer)))]
    count = data.draw(st.sampled_from([len(column), len(column) + 1, 1, 0, 1000]))
    found: npt.NDArray[Any]
    try:
        if which == "ranked":
            found = unpack_ranked(buffer, count, np.uint64(0), data.draw(st.integers(1, 64)))
        elif which == "paired":
            found = unpack_paired(buffer, count, np.uint64(0), data.draw(st.integers(1, 64)))
        elif which == "runs":
            found = unpack_runs(buffer, count, np.uint64(0))
        else:
            found = unpack_floats(buffer, count, data.draw(st.integers(0, 3)))
    except ValueError as error:
        assert str(error)  # noqa: PT017  (either outcome is right; any other exception fails the test)
    else:
        assert len(found) == count


def test_a_dictionary_larger_than_its_column_is_refused_before_it_is_read() -> None:
    buffer = np.zeros(1 << 20, np.uint8)
    buffer[:4].view("<u4")[0] = 1 << 19
    with pytest.raises(ValueError, match="its dictionary does not fit"):
        unpack_ranked(buffer, 5, np.uint64(0), 1)
    with pytest.raises(ValueError, match="its dictionary does not fit"):
        unpack_paired(buffer, 5, np.uint64(0), 1)


def test_a_rank_of_a_pair_beyond_the_dictionary_is_refused() -> None:
    ids = np.asarray([3, 3, 4, 4, 5, 5], dtype=np.uint64)
    buffer = pack_paired(ids, np.uint64(3), 2)
    assert buffer[4:7].tolist() == [0x00, 0x11, 0x22]
    for pairs in ([0x00, 0x11, 0x32], [0x40, 0x11, 0x22], [0x00, 0x11, 0x2E]):
        buffer[4:7] = pairs
        with pytest.raises(ValueError, match=r"beyond the dictionary|not as many"):
            unpack_paired(buffer, 6, np.uint64(3), 2)
    buffer = pack_paired(ids, np.uint64(3), 2)
    buffer[-1] |= 1 << 2  # rank 3 of class 2, which has two ranks and one id
    found = [unpack_paired_or_none(buffer, bit) for bit in range(8)]
    assert any(each is None for each in found)


def unpack_paired_or_none(buffer: npt.NDArray[np.uint8], bit: int) -> Array | None:
    """The ids with one bit of the last byte set, or None where they are refused for a rank."""
    changed = buffer.copy()
    changed[-1] |= 1 << bit
    try:
        return unpack_paired(changed, 6, np.uint64(3), 2)
    except ValueError as error:
        assert "beyond the dictionary" in str(error)  # noqa: PT017
        return None


def test_an_id_of_more_bits_than_are_stored_is_refused() -> None:
    ids = np.asarray([2**27, 2**27], dtype=np.uint64)
    buffer = pack_paired(ids, np.uint64(0), MOST_BITS)
    symbol = 4 + 1  # of the only id
    buffer[symbol] += 4 * 8
    with pytest.raises(ValueError, match="beyond the dictionary"):
        unpack_paired(np.append(buffer, np.zeros(1, np.uint8)), 2, np.uint64(0), MOST_BITS)


def test_a_rank_beyond_the_dictionary_is_refused() -> None:
    buffer = pack_ranked(np.asarray([3, 3, 4, 4], dtype=np.uint64), np.uint64(3), 1)
    buffer[4] = 2
    with pytest.raises(ValueError, match="beyond the dictionary"):
        unpack_ranked(buffer, 4, np.uint64(3), 1)


def test_a_rank_without_a_dictionary_is_refused() -> None:
    buffer = pack_ranked(np.asarray([3, 4, 5], dtype=np.uint64), np.uint64(3), 2)
    assert buffer[:4].view("<u4")[0] == 0
    buffer[4] = 0
    with pytest.raises(ValueError, match="beyond the dictionary"):
        unpack_ranked(buffer, 3, np.uint64(3), 2)


def test_runs_longer_than_their_column_are_refused_before_they_are_repeated() -> None:
    buffer = pack_runs(np.full(1000, 5, np.uint64), np.uint64(5))
    with pytest.raises(ValueError, match="not as long together as the column"):
        unpack_runs(buffer, 999, np.uint64(5))
