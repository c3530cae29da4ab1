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
from typing import IO, Final, Literal

import msgspec

from streams.errors import ConfigError, Reason
from streams.files.line import MAX_LINE_BYTES, BadLine, Line

Dialect = Literal["csv", "tsv"]
Cell = int | float | str | None

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,15})\.[0-9]{1,20}")
_TYPES: Final = {"token": False, "float": False, "token_seq": True, "float_seq": True}
"""RecBole's types, and whether a cell is a list."""


def read_delimited(stream: IO[bytes], dialect: Dialect) -> Iterator[Line | BadLine]:
    """One message a row; rows with too few or too many cells, or that are not UTF-8, are bad lines."""
    # Bytes that are no UTF-8 come as lone surrogates, which cannot be encoded again: they name themselves below.
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    csv.field_size_limit(MAX_LINE_BYTES)
    # TSV knows no quotes: titles hold them as they are.
    rows = csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE) if dialect == "tsv" else csv.reader(text)
    names, parsers = _header(next(rows, []))
    delimiter = "\t" if dialect == "tsv" else ","
    encode = msgspec.json.Encoder().encode
    while True:
        number = rows.line_num + 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield BadLine(number, Reason.TOO_LARGE, str(error), b"")
            continue
        if row is None:
            return
        if not row:
            continue
        raw = delimiter.join(row)
        if len(row) != len(names):
            detail = f"the row has {len(row)} cells, the header has {len(names)}"
            yield BadLine(number, Reason.WRONG_TYPE, detail, raw.encode(errors="surrogateescape"))
            continue
        try:
            yield Line(
                number, encode({name: parse(cell) for name, parse, cell in zip(names, parsers, row, strict=True)})
            )
        except UnicodeEncodeError:
            yield BadLine(number, Reason.WRONG_TYPE, "the row is not UTF-8", raw.encode(errors="surrogateescape"))


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
