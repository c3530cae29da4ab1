"""JSON lines: each line is a message already and is passed on byte for byte.

Owns finding the lines in bounded memory. Whether a line is JSON is the addresser's to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from streams.errors import Reason
from streams.files.line import MAX_LINE_BYTES, BadLine, Line

_BOM = b"\xef\xbb\xbf"


def read_json_lines(stream: IO[bytes]) -> Iterator[Line | BadLine]:
    """Lines that are not blank."""
    number = 0
    while piece := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        value = piece.removeprefix(_BOM).strip() if number == 1 else piece.strip()
        if len(piece) > MAX_LINE_BYTES:
            size = len(piece) + _skip_rest(stream, piece)
            yield BadLine(number, Reason.TOO_LARGE, f"the line has {size} bytes", value)
        elif value:
            yield Line(number, value)


def _skip_rest(stream: IO[bytes], piece: bytes) -> int:
    skipped = 0
    while piece and not piece.endswith(b"\n"):
        piece = stream.readline(MAX_LINE_BYTES)
        skipped += len(piece)
    return skipped
