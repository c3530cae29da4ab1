"""Ids that features share in a message: named once, read once, and never misread."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.errors import WireError
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged, offsets_of
from streams.minibatch import Lineage, MiniBatch
from streams.wire import decode, encode, peek
from streams.wire.layout import Encoding, Kind
from streams.wire.table import Section
from tests.streams.wire import reading
from tests.streams.wire.test_codec import body_of, same_batch, with_body

SAMPLES, SESSIONS = 300, 20
SECTION = struct.Struct("<BBBBHHIIIq")


def large_batch(*, high: int = 10_000, features: int = 4) -> MiniBatch:
    """Sessions of some samples, features that draw from the same skewed ids, dense columns of both kinds."""
    generator = np.random.default_rng(0)
    session = np.sort(generator.integers(0, SESSIONS, SAMPLES))
    drawn = (high ** generator.random(200_000)).astype(np.int64) * 7919 % high
    groups = []
    for f in range(features):
        lengths = generator.integers(0, 200, SESSIONS)
        rows = Jagged(generator.choice(drawn, int(lengths.sum())), offsets_of(lengths)).take(session)
        groups.append(deduplicate(f"user{f}", {f"user{f}": rows}))
    dense = generator.standard_normal((SAMPLES, 3)).astype(np.float32)
    dense[:, :2] = dense[session, :2]
    return MiniBatch(
        partition=0,
        sequence=0,
        watermark_ms=0,
        fingerprint=0,
        lineage=Lineage(
            offset=np.arange(SAMPLES),
            event_id=generator.integers(0, 2**63, SAMPLES).astype(np.uint64),
            session_id=session.astype(np.uint64),
            event_time_ms=np.sort(generator.integers(0, 10**6, SAMPLES)),
            appended_ms=np.full(SAMPLES, -1),
        ),
        labels=(generator.random((SAMPLES, 1)) < 0.05).astype(np.float32),
        dense=dense,
        groups=tuple(groups),
    )


def sections_of(message: bytes) -> list[Section]:
    return reading.sections_of(message, body_of(message))


def with_section(message: bytes, kind: Kind, **changes: int) -> bytes:
    """The message with one line of its section table replaced."""
    body, at = bytearray(body_of(message)), 0
    names = ("kind", "dtype", "encoding", "width", "name_bytes", "columns", "count", "position", "size", "base")
    for section in sections_of(message):
        line = dict(zip(names, SECTION.unpack_from(body, at), strict=True))
        if section.kind is kind:
            SECTION.pack_into(body, at, *(line | changes).values())
            return with_body(message, bytes(body))
        at += SECTION.size + line["name_bytes"]
    raise AssertionError(f"no section {kind.name}")


def test_features_that_draw_from_the_same_ids_share_one_section() -> None:
    sections = sections_of(encode(large_batch()))
    assert [(s.encoding, s.size) for s in sections if s.kind is Kind.VALUES] == [(Encoding.SHARED, 0)] * 4
    assert [s.encoding for s in sections if s.kind is Kind.IDS] == [Encoding.PAIRED]
    (wide,) = [s for s in sections_of(encode(large_batch(high=2**40))) if s.kind is Kind.IDS]
    assert (wide.encoding, wide.width > 28) == (Encoding.RANKED, True)


def test_a_large_batch_comes_back_bit_by_bit() -> None:
    for high in (10, 10_000, 2**40):
        batch = large_batch(high=high)
        assert same_batch(decode(encode(batch)), batch)


def test_ids_of_32_bits_and_negative_ones_come_back() -> None:
    batch = large_batch()
    (group,) = large_batch(features=1).groups
    rows = group.expand()["user0"]
    narrow = deduplicate("narrow", {"narrow": Jagged(rows.values.astype(np.int32), rows.offsets)})
    negative = deduplicate("negative", {"negative": Jagged(-rows.values * 2**50, rows.offsets)})
    batch = replace(batch, groups=(*batch.groups, narrow, negative))
    assert same_batch(decode(encode(batch)), batch)


def test_decoded_ids_are_views_of_one_array_in_the_order_of_the_features() -> None:
    decoded = decode(encode(large_batch()))
    values = [rows.values for group in decoded.groups for rows in group.features.values()]
    end = np.lib.array_utils.byte_bounds(values[0])[0]
    for each in values:
        assert np.lib.array_utils.byte_bounds(each)[0] == end
        assert not each.flags.owndata
        end = np.lib.array_utils.byte_bounds(each)[1]


def test_sharing_makes_the_message_smaller_than_packing_each_feature_alone() -> None:
    batch = large_batch(features=12)
    alone = [len(encode(replace(batch, groups=(group,)))) for group in batch.groups]
    nothing = len(encode(replace(batch, groups=())))
    assert len(encode(batch)) - nothing < 0.9 * (sum(alone) - 12 * nothing)


def test_shared_ids_that_are_missing_left_over_or_of_another_type_are_refused() -> None:
    message = encode(large_batch())
    count = next(s.count for s in sections_of(message) if s.kind is Kind.VALUES)
    for changes, words in (
        ({"count": count + 10_000}, "are left"),
        ({"count": count - 1}, "left|belong to no feature|values"),
        ({"dtype": 1}, "only int64"),
        ({"encoding": Encoding.RANKED}, "cannot have 0 bits"),
        ({"encoding": Encoding.PAIRED, "width": 29}, "cannot have 29 bits"),
        ({"encoding": Encoding.PAIRED, "width": 1}, "dictionary does not fit"),
        ({"encoding": Encoding.RANKED, "width": 1}, "dictionary does not fit"),
        ({"encoding": Encoding.FLOATS}, "never stored as floats"),
    ):
        with pytest.raises(WireError, match=words):
            decode(with_section(message, Kind.VALUES, **changes))
    with pytest.raises(WireError, match="cannot have 65 bits"):
        decode(with_section(message, Kind.IDS, width=65))
    with pytest.raises(WireError, match="only values share ids"):
        decode(with_section(message, Kind.LABELS, encoding=Encoding.SHARED))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_under_fitting_checksums_is_refused_or_is_another_valid_batch(data: st.DataObject) -> None:
    message = encode(large_batch())
    body = bytearray(body_of(message))
    section = data.draw(st.sampled_from(sections_of(message)))
    for _ in range(data.draw(st.integers(1, 3))):
        near = st.integers(section.position, max(section.position, section.position + section.size - 1))
        position = data.draw(st.one_of(st.integers(0, peek(message).table_bytes - 1), near))
        if position < len(body):
            body[position] = data.draw(st.integers(0, 255))
    try:
        decode(with_body(message, bytes(body))).validate()
    except WireError as error:
        assert str(error)  # noqa: PT017  (either outcome is right; any other exception fails the test)
