"""A file of any supported kind as JSON messages with their lines.

Owns which reader a file needs, by the end of its name or as told, and decompression. A file that is damaged as
a whole (cut short, no Parquet, no header) is an error; a damaged line is a `BadLine`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Literal, cast, get_args

import zstandard

from streams.errors import ConfigError
from streams.files.delimited import read_delimited
from streams.files.json_lines import read_json_lines
from streams.files.line import BadLine, Line
from streams.files.parquet import read_parquet

Format = Literal["csv", "tsv", "jsonl", "parquet"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
_BY_SUFFIX: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".inter": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def read(path: Path, kind: Format | None = None) -> Iterator[Line | BadLine]:
    """All messages of a file, in the file's order. Raises ConfigError if it cannot be read as a whole."""
    kind = kind or format_of(path)
    if kind == "parquet":
        yield from read_parquet(path)
        return
    try:
        with _opened(path) as stream:
            yield from read_json_lines(stream) if kind == "jsonl" else read_delimited(stream, kind)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def format_of(path: Path) -> Format:
    """The format that the name of a file stands for."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in {".gz", ".zst"}:
        suffixes.pop()
    found = _BY_SUFFIX.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise ConfigError(f"{path}: the name does not say what it holds; give one of {', '.join(FORMATS)}")
    return found


def _opened(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if path.suffix.lower() == ".zst":
        return cast("IO[bytes]", zstandard.open(path, "rb"))
    return path.open("rb")
