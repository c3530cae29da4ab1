"""Mini-batches as bytes: exact round trips, pinned bytes, and no harm from damaged ones."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.errors import WireError
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import deduplicate_windows
from streams.ikjt.windows import PartialIkjt
from streams.minibatch import LINEAGE_DTYPES, Lineage, MiniBatch
from streams.wire import decode, encode, kjt_bytes, most_bytes, peek
from streams.wire.codec import frame_bytes
from streams.wire.layout import HEADER_BYTES, MAX_BODY_BYTES
from tests.streams.batches import fixed_batch, fixed_partial_batch, mini_batches
from tests.streams.ikjt.test_partial import same_group

HERE = Path(__file__).parent
GOLDEN = {"golden_v1.hex": fixed_batch, "golden_v1_partial.hex": fixed_partial_batch}
FIXED = pytest.mark.parametrize("fixed", [fixed_batch, fixed_partial_batch])


def same_batch(left: MiniBatch, right: MiniBatch) -> bool:
    """Equal in every bit, dtypes and shapes included."""
    columns = [(getattr(left.lineage, name), getattr(right.lineage, name)) for name in LINEAGE_DTYPES]
    columns += [(left.labels, right.labels), (left.dense, right.dense), (left.stages, right.stages)]
    return (
        (left.partition, left.sequence, left.watermark_ms, left.fingerprint, left.negative_rate)
        == (right.partition, right.sequence, right.watermark_ms, right.fingerprint, right.negative_rate)
        and all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in columns)
        and len(left.groups) == len(right.groups)
        and all(same_group(a, b) for a, b in zip(left.groups, right.groups, strict=True))
    )


def with_body(message: bytes, body: bytes) -> bytes:
    """The message with another body, and sizes and checksums that fit it: damage that no checksum shows."""
    stored = zstandard.ZstdCompressor().compress(body)
    head = bytearray(message[: HEADER_BYTES - 4])
    head[40:48] = struct.pack("<II", len(body), len(stored))
    head[56:60] = struct.pack("<I", google_crc32c.value(stored))
    return bytes(head) + struct.pack("<I", google_crc32c.value(bytes(head))) + stored


def with_header(message: bytes, position: int, replacement: bytes) -> bytes:
    """The message with some bytes of its header replaced under a fitting checksum."""
    head = bytearray(message[: HEADER_BYTES - 4])
    head[position : position + len(replacement)] = replacement
    return bytes(head) + struct.pack("<I", google_crc32c.value(bytes(head))) + message[HEADER_BYTES:]


def body_of(message: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(message[HEADER_BYTES:])


@settings(max_examples=150, deadline=None)
@given(mini_batches())
def test_any_mini_batch_comes_back_bit_by_bit(batch: MiniBatch) -> None:
    decoded = decode(encode(batch))
    assert same_batch(decoded, batch)
    assert decoded.content_hash == batch.content_hash


@pytest.mark.parametrize("level", [-1, 1, 3, 19])
def test_every_compression_level_gives_the_same_mini_batch(level: int) -> None:
    assert same_batch(decode(encode(fixed_batch(), level=level)), fixed_batch())


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_of_version_1_never_change(name: str) -> None:
    golden = bytes.fromhex((HERE / name).read_text())
    written = encode(GOLDEN[name]())
    assert same_batch(decode(golden), GOLDEN[name]())
    # How zstd compresses may differ between its releases. What it is given differs only if we choose other encodings:
    # then the old bytes must still be read (above), and the file gets the new ones.
    assert body_of(written).hex() == body_of(golden).hex()
    assert written[:44].hex() == golden[:44].hex()
    assert written[48:56].hex() == golden[48:56].hex()


def test_the_header_can_be_read_alone() -> None:
    header = peek(encode(fixed_batch()))
    assert (header.partition, header.sequence, header.samples, header.sessions) == (3, 41, 5, 2)
    assert (header.watermark_ms, header.fingerprint) == (1_700_000_009_000, 0xFEDCBA9876543210)
    assert header.body_bytes == len(body_of(encode(fixed_batch())))


@settings(max_examples=50, deadline=None)
@given(mini_batches())
def test_every_column_is_an_aligned_view_of_one_memory(batch: MiniBatch) -> None:
    decoded = decode(encode(batch))
    memory = memory_of(decoded.labels)
    assert isinstance(memory, np.ndarray)
    for column in columns_of(decoded):
        assert memory_of(column) is memory
        assert column.ctypes.data % 64 == 0 or column.size == 0
        assert column.flags.writeable


def test_ids_that_nothing_makes_smaller_lie_in_that_memory_too() -> None:
    generator = np.random.default_rng(0)
    log = generator.integers(-(2**63), 2**63 - 1, 104)
    rows = Jagged(np.concatenate([log[b : b + 100] for b in range(5)]), np.arange(6, dtype=np.int64) * 100)
    dense = generator.random((5, 2), dtype=np.float32)
    batch = fixed_batch()
    for group in (
        deduplicate("g", {"a": rows}, dense, ["x", "y"]),
        deduplicate_windows("g", {"a": rows}, np.zeros(5, np.uint64), dense, ["x", "y"]),
    ):
        decoded = decode(encode(replace(batch, groups=(group,))))
        (found,) = decoded.groups
        assert same_group(found, group)
        stored = found.buffers if isinstance(found, PartialIkjt) else found.features
        assert found.dense is not None
        for column in (found.dense, stored["a"].values):
            assert column.base is not None
            assert memory_of(column) is memory_of(decoded.labels)


def columns_of(batch: MiniBatch) -> list[npt.NDArray[Any]]:
    """Every array of a mini-batch."""
    columns = [getattr(batch.lineage, name) for name in LINEAGE_DTYPES] + [batch.labels, batch.dense]
    for group in batch.groups:
        columns.append(group.inverse)
        if group.dense is not None:
            columns.append(group.dense)
        if isinstance(group, PartialIkjt):
            columns += [group.start, group.length]
        for rows in (group.buffers if isinstance(group, PartialIkjt) else group.features).values():
            columns += [rows.values, rows.offsets] + ([] if rows.weights is None else [rows.weights])
    return columns


def memory_of(array: npt.NDArray[Any]) -> object:
    """What an array is at last a view of."""
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base


def test_windows_that_would_be_huge_when_copied_out_are_refused_in_both_directions() -> None:
    size, rows = 1 << 20, 128
    buffer = Jagged(np.zeros(size, np.int64), np.asarray([0, size], np.int64))
    start, inverse = np.zeros(rows, np.int32), np.arange(rows, dtype=np.int32)
    long = PartialIkjt("g", {"a": buffer}, start, np.full(rows, size, np.int32), inverse)
    batch = batch_of(long)
    batch.validate()
    with pytest.raises(ValueError, match="group g: its windows hold 1073741824 bytes when each is copied out"):
        encode(batch)
    short = encode(batch_of(replace(long, length=np.full(rows, 3, np.int32))))
    body = bytearray(body_of(short))
    table = body.index(b"\x16\x01\x04")  # kind window, int32, constant
    body[table + 20 : table + 28] = struct.pack("<q", size)
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="its windows hold 1073741824 bytes"):
            decode(with_body(short, bytes(body)))
        assert tracemalloc.get_traced_memory()[1] < 4 * 8 * size
    finally:
        tracemalloc.stop()


def batch_of(group: PartialIkjt) -> MiniBatch:
    """A mini-batch of one session with this group and nothing else."""
    size = group.num_samples
    columns: dict[str, Any] = {name: np.zeros(size, dtype) for name, dtype in LINEAGE_DTYPES.items()}
    nothing = np.zeros((size, 0), np.float32)
    lineage = Lineage(**columns)
    return replace(fixed_batch(), lineage=lineage, labels=nothing, dense=nothing, groups=(group,))


def test_ids_that_fit_into_few_bits_take_few_bytes() -> None:
    generator = np.random.default_rng(0)
    values = generator.integers(0, 1000, 10_000)
    offsets = np.asarray([0, 2000, 4000, 6000, 8000, 10_000], dtype=np.int64)
    batch = replace(fixed_batch(), groups=(deduplicate("g", {"a": Jagged(values, offsets)}),))
    assert len(encode(batch)) < 10_000 * 10 / 8 * 1.05 + 400


def test_the_expanded_batch_is_larger_through_the_same_codec() -> None:
    generator = np.random.default_rng(0)
    row = generator.integers(0, 2**40, 500)
    rows = Jagged(np.tile(row, 5), np.arange(6, dtype=np.int64) * 500)
    batch = replace(fixed_batch(), groups=(deduplicate("g", {"a": rows}),))
    raw = peek(encode(batch)).body_bytes
    assert kjt_bytes(batch) > len(encode(batch))
    assert raw < 5 * 500 * 5


def test_a_batch_that_breaks_its_invariants_is_not_written() -> None:
    batch = fixed_batch()
    with pytest.raises(ValueError, match=r"labels must be \[5, …\] float32"):
        encode(replace(batch, labels=batch.labels[:4]))
    with pytest.raises(ValueError, match="feature item is there twice"):
        encode(replace(batch, groups=(batch.groups[1], replace(batch.groups[1], group="again"))))


@settings(max_examples=150, deadline=None)
@given(mini_batches())
def test_no_message_is_larger_than_its_bound(batch: MiniBatch) -> None:
    assert len(encode(batch)) <= most_bytes(batch)


def test_the_bound_of_ids_that_nothing_makes_smaller_is_near() -> None:
    generator = np.random.default_rng(0)
    rows = Jagged(generator.integers(-(2**63), 2**63 - 1, 100_000), np.arange(6, dtype=np.int64) * 20_000)
    batch = replace(fixed_batch(), groups=(deduplicate("g", {"a": rows}),))
    assert len(encode(batch)) <= most_bytes(batch) <= 1.02 * len(encode(batch)) + 4096


@FIXED
def test_a_message_cut_off_anywhere_is_refused(fixed: Callable[[], MiniBatch]) -> None:
    message = encode(fixed())
    for length in range(len(message)):
        with pytest.raises(WireError):
            decode(message[:length])


@FIXED
def test_a_flipped_bit_anywhere_is_refused(fixed: Callable[[], MiniBatch]) -> None:
    message = encode(fixed())
    for position in range(len(message)):
        damaged = bytearray(message)
        damaged[position] ^= 1 << (position % 8)
        with pytest.raises(WireError):
            decode(bytes(damaged))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data)


@FIXED
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damage_under_fitting_checksums_is_refused_or_is_another_valid_batch(
    fixed: Callable[[], MiniBatch], data: st.DataObject
) -> None:
    message = encode(fixed())
    body = bytearray(body_of(message))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        body = body[: data.draw(st.integers(0, len(body)))]
    damaged = with_body(message, bytes(body))
    if data.draw(st.booleans()):
        damaged = with_header(damaged, data.draw(st.integers(5, 55)), data.draw(st.binary(min_size=1, max_size=4)))
    try:
        decoded = decode(damaged)
    except WireError as error:
        assert str(error)  # noqa: PT017  (either outcome is right; any other exception fails the test)
    else:
        decoded.validate()  # what decoding proves itself is held against the rules as they are written
        assert decoded.content_hash >= 0


def test_a_newer_version_is_refused_in_words() -> None:
    with pytest.raises(WireError, match="written in version 2 of the format, this recd reads up to 1: update it"):
        decode(with_header(encode(fixed_batch()), 4, b"\x02"))


def test_something_else_is_refused_in_words() -> None:
    with pytest.raises(WireError, match=r"not a mini-batch: it begins with b'\{\"us'"):
        decode(b'{"user": 5}' + bytes(64))


def test_announced_sizes_are_never_believed() -> None:
    message = encode(fixed_batch())
    body = bytearray(body_of(message))
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 26))
    head = with_header(message, 44, struct.pack("<I", len(bomb)))[: HEADER_BYTES - 4]
    head = head[:56] + struct.pack("<I", google_crc32c.value(bomb))
    lies = [
        with_header(message, 40, struct.pack("<I", MAX_BODY_BYTES)),
        with_header(message, 40, struct.pack("<I", 2**32 - 1)),
        with_header(message, 6, struct.pack("<H", 65_535)),
        with_header(message, 12, struct.pack("<I", 2**32 - 1)),
        head + struct.pack("<I", google_crc32c.value(head)) + bomb,
        # The fifth section is constant, so no bytes stand behind its count.
        with_body(message, bytes(body[: 4 * 28 + 8]) + struct.pack("<I", 2**32 - 1) + bytes(body[4 * 28 + 12 :])),
    ]
    tracemalloc.start()
    try:
        for lie in lies:
            with pytest.raises(WireError):
                decode(lie)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_batch_above_the_limit_is_refused_before_it_is_compressed() -> None:
    rows = Jagged(np.zeros(1 << 26, dtype=np.int64), np.asarray([0, 1 << 26], dtype=np.int64))
    one = deduplicate("g", {"a": rows})
    batch = replace(fixed_batch(), groups=(replace(one, inverse=np.zeros(5, dtype=np.int32)),))
    with pytest.raises(ValueError, match="above the limit of the format; make smaller batches"):
        encode(batch)


def test_what_the_format_has_no_room_for_is_a_value_error() -> None:
    batch = fixed_batch()
    for too_much in (
        replace(batch, watermark_ms=1 << 63),
        replace(batch, labels=np.zeros((len(batch), 70_000), np.float32)),
        replace(batch, groups=(deduplicate("g", {"k" * 70_000: Jagged.from_lists([[1]] * len(batch))}),)),
    ):
        with pytest.raises(ValueError, match="beyond the format"):
            encode(too_much)


def test_only_whole_mini_batches_are_written() -> None:
    group: Any = fixed_batch().groups[0]
    with pytest.raises(TypeError, match="a message holds a MiniBatch, not Ikjt"):
        encode(group)


@pytest.mark.parametrize("behind", [b"x", zstandard.ZstdCompressor().compress(b"another frame")])
def test_bytes_behind_the_compressed_body_are_refused_though_every_checksum_fits(behind: bytes) -> None:
    message = encode(fixed_batch()) + behind
    stored = message[HEADER_BYTES:]
    sized = with_header(message, 44, struct.pack("<I", len(stored)))
    with pytest.raises(WireError, match=f"body ends at byte {len(stored) - len(behind)}, but {len(stored)} bytes are"):
        decode(with_header(sized, 56, struct.pack("<I", google_crc32c.value(stored))))


@pytest.mark.parametrize("checksum", [False, True])
def test_the_end_of_a_frame_is_found_whatever_its_blocks_are(checksum: bool) -> None:  # noqa: FBT001
    message = encode(fixed_batch())
    random = np.random.default_rng(0).bytes(300_000)  # raw blocks; zeros are repeated ones
    for body in (body_of(message), bytes(300_000), random, random + bytes(300_000)):
        frame = zstandard.ZstdCompressor(write_checksum=checksum).compress(body)
        assert frame_bytes(memoryview(frame)) == len(frame)
