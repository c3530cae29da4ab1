"""Files of every kind as messages."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from streams.errors import ConfigError, Reason
from streams.files.delimited import cell
from streams.files.line import MAX_LINE_BYTES, BadLine, Line
from streams.files.read import read


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def messages(path: Path) -> list[object]:
    return [json.loads(line.value) if isinstance(line, Line) else line.reason for line in read(path)]


def test_a_csv_row_is_a_message_and_its_numbers_stay_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", b'\xef\xbb\xbfuser,item,price\n1,"a, ""b""",2.50\n2,,007\n')
    assert messages(path) == [{"user": 1, "item": 'a, "b"', "price": 2.5}, {"user": 2, "item": None, "price": "007"}]


def test_a_bad_csv_row_is_named_by_its_line_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", b'u,i\n1,"two\nlines"\n\n2\n3,\xff\n4,x,y\n5,6\n')
    lines = list(read(path))
    assert [(line.number, type(line)) for line in lines] == [
        (2, Line), (5, BadLine), (6, BadLine), (7, BadLine), (8, Line),
    ]  # fmt: skip
    assert lines[2] == BadLine(6, Reason.WRONG_TYPE, "the row is not UTF-8", b"3,\xff")


def test_a_recbole_header_names_its_columns_and_lists(tmp_path: Path) -> None:
    text = b'user_id:token\titem_id:token\ttimestamp:float\tgenres:token_seq\n196\t242\t881250949\tComedy "7" 12\n'
    assert messages(written(tmp_path, "a.inter", text)) == [
        {"user_id": 196, "item_id": 242, "timestamp": 881250949, "genres": ["Comedy", '"7"', 12]}
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [("42", 42), ("-7", -7), ("0", 0), ("1.50", 1.5), ("", None), ("007", "007"), ("12e4", "12e4"), ("+1", "+1"),
     ("-0", "-0"), ("9223372036854775808", "9223372036854775808"), ("nan", "nan"), (" 1", " 1"), ("1.", "1.")],
)  # fmt: skip
def test_a_cell_means_the_same_wherever_it_stands(text: str, value: object) -> None:
    assert cell(text) == value
    assert type(cell(text)) is type(value)


def test_json_lines_pass_byte_for_byte_and_are_not_judged(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", b'{"a": 1}\r\n\n{"b":\nlast')
    assert list(read(path)) == [Line(1, b'{"a": 1}'), Line(3, b'{"b":'), Line(4, b"last")]


def test_a_line_that_is_too_long_is_bad_and_the_next_one_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", b"x" * (2 * MAX_LINE_BYTES + 5) + b"\n{}\n")
    long, short = read(path)
    assert isinstance(long, BadLine)
    assert (long.reason, long.number) == (Reason.TOO_LARGE, 1)
    assert short == Line(2, b"{}")


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files_are_read_as_what_they_hold(tmp_path: Path, suffix: str) -> None:
    content = b"u,i\n1,2\n"
    packed = gzip.compress(content) if suffix == ".gz" else zstandard.compress(content)
    assert messages(written(tmp_path, f"a.csv{suffix}", packed)) == [{"u": 1, "i": 2}]


def test_a_file_that_was_cut_short_is_an_error_and_not_a_shorter_file(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl.gz", gzip.compress(b'{"a":1}\n' * 1000)[:-12])
    with pytest.raises(ConfigError, match=r"a\.jsonl\.gz: cannot be read"):
        list(read(path))


def test_parquet_rows_become_messages(tmp_path: Path) -> None:
    moment = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
    table = pa.table({
        "u": [1, 2],
        "t": pa.array([moment, None], pa.timestamp("ns", "UTC")),
        "f": [float("inf"), float("nan")],
        "l": [[1, 2], []],
        "b": pa.array([b"x", b"y"]),
        "d": pa.array(["p", "q"]).dictionary_encode(),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    assert messages(tmp_path / "a.parquet") == [
        {"u": 1, "t": "2020-01-01T12:00:00Z", "f": "inf", "l": [1, 2], "b": "x", "d": "p"},
        {"u": 2, "t": None, "f": None, "l": [], "b": "y", "d": "q"},
    ]


@pytest.mark.parametrize("name", ["a.parquet", "a.xlsx", "missing.csv", "empty.csv", "twice.csv"])
def test_a_file_that_cannot_be_read_as_a_whole_is_refused_by_name(tmp_path: Path, name: str) -> None:
    if name != "missing.csv":
        written(tmp_path, name, {"empty.csv": b"", "twice.csv": b"a,a\n1,2\n"}.get(name, b"PK"))
    with pytest.raises(ConfigError, match=name):
        list(read(tmp_path / name))
