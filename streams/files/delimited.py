"""CSV and TSV, with a header. RecBole's typed headers (`user_id:token`, `genres:token_seq`) are understood.

Owns what a cell means. It depends on the cell's text alone, never on other rows, so that an id is the same in
every file: text that spells an int64 canonically is that integer, a plain decimal fraction is that number, an
empty cell is null, and anything else (007, 12e4, +1) stays a string. A `_seq` column is a list, split at spaces.

Python's own reader and not Arrow's: that one infers types from the first block, fails a whole block for one
bad row, and does not know the line of a good one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Final, Literal, Protocol, TextIO

import msgspec

from streams.errors import ConfigError, Reason
from streams.files.line import MAX_LINE_BYTES, BadLine, Line

Dialect = Literal["csv", "tsv"]
Cell = int | float | str | None


class CsvRows(Protocol):
    """What `csv.reader` returns."""

    @property
    def line_num(self) -> int: ...
    def __next__(self) -> list[str]: ...


_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,15})\.[0-9]{1,20}")
_TYPES: Final = {"token": False, "float": False, "token_seq": True, "float_seq": True}
"""RecBole's types, and whether a cell is a list."""


def read_delimited(stream: IO[bytes], dialect: Dialect) -> Iterator[Line | BadLine]:
    """One message a row; rows with too few or too many cells, or that are not UTF-8, are bad lines."""
    # Bytes that are no UTF-8 come as lone surrogates, which cannot be encoded again: they name themselves below.
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    # One limit for the whole process is all that Python's reader has; nobody else uses it.
    csv.field_size_limit(MAX_LINE_BYTES)
    try:
        yield from _messages(text, dialect)
    finally:
        # The stream is its opener's to close.
        text.detach()


def _messages(text: TextIO, dialect: Dialect) -> Iterator[Line | BadLine]:
    # TSV knows no quotes: titles hold them as they are.
    rows = csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE) if dialect == "tsv" else csv.reader(text)
    names, parsers = _header(next(rows, []))
    delimiter = "\t" if dialect == "tsv" else ","
    encode = msgspec.json.Encoder().encode
    for number, row in _numbered(rows):
        raw = delimiter.join(row)
        if isinstance(row, str):
            yield BadLine(number, Reason.TOO_LARGE, row, b"")
        elif len(row) != len(names):
            detail = f"the row has {len(row)} cells, the header has {len(names)}"
            yield BadLine(number, Reason.WRONG_TYPE, detail, raw.encode(errors="surrogateescape"))
        else:
            cells = zip(names, parsers, row, strict=True)
            try:
                yield Line(number, encode({name: parse(part) for name, parse, part in cells}))
            except UnicodeEncodeError:
                yield BadLine(number, Reason.WRONG_TYPE, "the row is not UTF-8", raw.encode(errors="surrogateescape"))


def _numbered(rows: CsvRows) -> Iterator[tuple[int, list[str] | str]]:
    """Rows that are not blank with the line they begin at; a string says why a row could not be read."""
    while True:
        number = rows.line_num + 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield number, str(error)
            continue
        if row is None:
            return
        if row:
            yield number, row


def cell(text: str) -> Cell:
    """What the text of one cell means."""
    if not text:
        return None
    if _INTEGER.fullmatch(text):
        number = int(text)
        return number if -(1 << 63) < number < 1 << 63 and text != "-0" else text
    return float(text) if _DECIMAL.fullmatch(text) else text


def _cells(text: str) -> list[Cell]:
    return [cell(part) for part in text.split()]


def _header(row: Sequence[str]) -> tuple[list[str], list[Callable[[str], Cell | list[Cell]]]]:
    names: list[str] = []
    parsers: list[Callable[[str], Cell | list[Cell]]] = []
    for title in row:
        name, colon, kind = title.strip().rpartition(":")
        typed = bool(colon) and kind in _TYPES
        names.append(name if typed else title.strip())
        parsers.append(_cells if typed and _TYPES[kind] else cell)
    if not any(names):
        raise ConfigError("the file has no header: its first line must name the columns")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"the header names the column {twice[0]!r} twice; rename one of them")
    return names, parsers
