"""The ledger on disk: appended, torn at every byte, rolled into segments, read from a step on."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import InvariantError
from trainer.ledger import Kind, LedgerDamageError, Line, after, encode
from trainer.ledger_file import MAGIC, LedgerFile, read, segments


def line(step: int, kind: Kind = Kind.TRAINED) -> Line:
    return Line(step=step, epoch=1, kind=kind)


def write(directory: Path, *lines: Line, segment_bytes: int = 10**6) -> None:
    ledger, _, _ = LedgerFile.open(directory, 0, segment_bytes)
    for each in lines:
        ledger.append(each)
    ledger.close()


def test_a_file_torn_at_every_byte_is_cut_to_its_whole_lines_and_goes_on(tmp_path: Path) -> None:
    frames = [encode(line(step)) for step in (1, 2, 3)]
    whole = MAGIC + b"".join(frames)
    for size in range(len(whole) + 1):
        directory = tmp_path / str(size)
        directory.mkdir()
        path = directory / "00000001-000000000001.ledger"
        path.write_bytes(whole[:size])
        kept = sum(len(MAGIC) + len(b"".join(frames[: n + 1])) <= size for n in range(3))
        ledger, lines, torn = LedgerFile.open(directory, 0)
        assert [each.step for each in lines] == list(range(1, kept + 1))
        ledger.append(line(kept + 1))
        ledger.close()
        assert [each.step for each in read(directory)] == list(range(1, kept + 2))
        assert path.with_suffix(".torn").exists() == bool(torn)


def test_reading_beside_a_writer_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, line(1), line(2))
    [path] = segments(tmp_path)
    torn = path.read_bytes()[:-3]
    path.write_bytes(torn)
    assert [each.step for each in read(tmp_path)] == [1]
    assert path.read_bytes() == torn


def test_a_full_segment_is_closed_and_the_lines_go_on_in_the_next(tmp_path: Path) -> None:
    write(tmp_path, *(line(step) for step in range(1, 10)), segment_bytes=100)
    assert len(segments(tmp_path)) > 2
    assert [each.step for each in read(tmp_path)] == list(range(1, 10))


def test_only_the_segments_that_matter_are_read(tmp_path: Path) -> None:
    write(tmp_path, *(line(step) for step in range(1, 10)), segment_bytes=100)
    segments(tmp_path)[0].write_bytes(b"damaged beyond recognition")
    for step in range(4, 10):
        assert set(range(step + 1, 10)) <= {each.step for each in read(tmp_path, step)}
    with pytest.raises(InvariantError, match="is no ledger"):
        read(tmp_path)


def test_after_a_rewind_the_live_lines_are_still_found(tmp_path: Path) -> None:
    lines = [*(line(step) for step in range(1, 8)), line(3, Kind.REWIND), *(line(step) for step in range(4, 9))]
    write(tmp_path, *lines, segment_bytes=100)
    for step in range(9):
        assert [each.step for each in after(read(tmp_path, step), step)] == list(range(step + 1, 9))


def test_a_torn_line_in_the_middle_of_the_segments_is_refused(tmp_path: Path) -> None:
    write(tmp_path, *(line(step) for step in range(1, 10)), segment_bytes=100)
    path = segments(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(LedgerDamageError, match="a later segment exists"):
        read(tmp_path)
