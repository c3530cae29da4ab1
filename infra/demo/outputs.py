"""The summaries that the children printed as their last JSON lines.

Owns: finding them in a log that also holds other lines, of several lives if a child was restarted.
Never: trusts a summary that lacks a key.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from streams.errors import InvariantError


def last_object(lines: Sequence[str], keys: Collection[str], child: str) -> dict[str, Any]:
    """The last line that is a JSON object with all these keys."""
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(found, dict) and found.keys() >= set(keys):
                return found
    raise InvariantError(f"{child} ended well but printed no summary with {', '.join(sorted(keys))}; look at its log")
