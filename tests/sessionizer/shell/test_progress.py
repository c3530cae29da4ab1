"""The records of the cuts topic: stored bytes never change meaning, and no mixture of two cuts is accepted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.progress import (
    CutRef,
    Progress,
    checksum,
    chunk_index,
    chunk_key,
    from_chunks,
    progress_key,
    to_chunks,
)
from streams.clock_mark import ClockMark, MarkKind
from streams.errors import InvariantError
from streams.inputs import Input, Position


def ref(data: bytes, number: int, chunks: int) -> CutRef:
    return CutRef(
        number=number,
        first_offset=0,
        chunks=chunks,
        size_bytes=len(data),
        crc32c=checksum(data),
        next_offset=0,
        clock_offset=0,
    )


@given(data=st.binary(max_size=300), chunk_bytes=st.integers(1, 64), number=st.integers(1, 1 << 40))
def test_a_cut_comes_back_from_its_chunks(data: bytes, chunk_bytes: int, number: int) -> None:
    chunks = dict(enumerate(to_chunks(data, number, chunk_bytes)))
    assert from_chunks(ref(data, number, len(chunks)), chunks) == data


def test_a_missing_a_damaged_and_a_foreign_chunk_are_refused() -> None:
    old, new = to_chunks(b"a" * 20, 1, 8), to_chunks(b"b" * 20, 2, 8)
    cut = ref(b"b" * 20, 2, 3)
    assert from_chunks(cut, dict(enumerate(new))) == b"b" * 20
    assert from_chunks(cut, dict(enumerate(new[:2]))) is None
    assert from_chunks(cut, {0: new[0], 1: old[1], 2: new[2]}) is None
    assert from_chunks(cut, {0: new[0], 1: new[1][:-1] + b"x", 2: new[2]}) is None
    assert from_chunks(cut, dict(enumerate([*new, old[2]]))) == b"b" * 20, "what lies behind the last chunk is ignored"


def test_keys_name_partition_and_chunk() -> None:
    assert chunk_key(3, 12) == b"cut/3/12"
    assert chunk_index(chunk_key(3, 12)) == 12
    assert progress_key(3) == b"progress/3"
    assert chunk_index(progress_key(3)) is None
    foreign = (b"", b"cut", b"cut/", b"cut/3/", b"cut/3/x", b"cut/3/-1", b"\xff")
    assert {key: chunk_index(key) for key in foreign} == dict.fromkeys(foreign)


def test_golden_bytes_of_a_progress_record() -> None:
    cut = CutRef(
        number=2, first_offset=5, chunks=1, size_bytes=9, crc32c=7, next_offset=40, clock_offset=1, applied=(3,)
    )
    data = (
        b'{"next_offset":50,"next_sequence":4,"next_epoch":1,"clock_offset":2,"cut":{"number":2,"first_offset":5,'
        b'"chunks":1,"size_bytes":9,"crc32c":7,"next_offset":40,"clock_offset":1,"applied":[3],"ended_at":-1,'
        b'"profiles_offset":0},"source":"clicks",'
        b'"topic_ids":{"clicks":"x"},'
        b'"version":1}'
    )
    progress = Progress(
        next_offset=50,
        next_sequence=4,
        next_epoch=1,
        clock_offset=2,
        cut=cut,
        source="clicks",
        topic_ids={"clicks": "x"},
    )
    assert progress.encode() == data
    assert Progress.decode(data) == progress


def test_golden_bytes_of_a_progress_record_of_two_topics() -> None:
    cut = CutRef(
        number=2, first_offset=5, chunks=1, size_bytes=9, crc32c=7, next_offset=40, clock_offset=1, next_outcome=12,
        ended_at=30, ended_outcome=11,
    )  # fmt: skip
    data = (
        b'{"next_offset":50,"next_sequence":0,"next_epoch":0,"clock_offset":0,"cut":{"number":2,"first_offset":5,'
        b'"chunks":1,"size_bytes":9,"crc32c":7,"next_offset":40,"clock_offset":1,"applied":[],"ended_at":30,"profiles_offset":0,'
        b'"next_outcome":12,"ended_outcome":11},"source":"views","topic_ids":{},"version":2,"next_outcome":13,"outcomes":"clicks"}'
    )
    progress = Progress(next_offset=50, cut=cut, source="views", version=2, next_outcome=13, outcomes="clicks")
    assert progress.encode() == data
    assert Progress.decode(data) == progress
    assert (progress.position, cut.position, cut.ended) == (Position(50, 13), Position(40, 12), Position(30, 11))


def test_golden_bytes_of_clock_marks() -> None:
    one = ClockMark(partition=1, after_offset=7, kind=MarkKind.END)
    assert one.encode() == b'{"partition":1,"after_offset":7,"kind":"end","value_ms":0,"replaces":null,"version":1}'
    two = ClockMark.at(Position(7, 9), MarkKind.IDLE, partition=1, two=True, about=Input.OUTCOMES, value_ms=5)
    assert two.encode() == (
        b'{"partition":1,"after_offset":7,"kind":"idle","value_ms":5,"replaces":null,"version":2,'
        b'"after_outcomes":9,"about":1}'
    )
    assert [ClockMark.decode(mark.encode()) for mark in (one, two)] == [one, two]


@pytest.mark.parametrize("data", [b"", b"{", b'{"next_offset":"x"}', b'{"version":99}'])
def test_what_this_version_did_not_write_is_refused(data: bytes) -> None:
    with pytest.raises(InvariantError):
        Progress.decode(data)
