"""The summaries that the children printed as their last JSON lines.

Owns: finding them in a log that also holds other lines, of several lives if a child was restarted.
Never: trusts a summary that lacks a key.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from streams.errors import InvariantError


def objects(lines: Sequence[str], keys: Collection[str]) -> Iterator[dict[str, Any]]:
    """The lines that are JSON objects with all these keys, in their order."""
    for line in lines:
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except json.JSONDecodeError:  # A process that was killed may leave half a line.
                continue
            if isinstance(found, dict) and found.keys() >= set(keys):
                yield found


def last_object(lines: Sequence[str], keys: Collection[str], child: str) -> dict[str, Any]:
    """The last of them; InvariantError if there is none."""
    for found in objects(lines[::-1], keys):
        return found
    raise InvariantError(f"{child} ended well but printed no summary with {', '.join(sorted(keys))}; look at its log")
