"""What the children printed: their summaries for the demo, their last words for a person.

Owns: finding both in a log that also holds other lines, of several lives if a child was restarted.
Never: trusts a summary that lacks a key.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from streams.errors import InvariantError

MANY_LINES: Final = 400
LINE_CHARS: Final = 400
LOG_KEYS: Final = ("event", "level", "logger", "timestamp")


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


def last_words(lines: Sequence[str], count: int = 15) -> str:
    """The last lines of a log as a person reads them: no progress, no frames of a traceback in JSON, none too long."""
    said = [text for line in lines[-MANY_LINES:] if (text := _in_words(line))]
    return "\n".join(f"  {text[:LINE_CHARS]}" for text in said[-count:])


def _in_words(line: str) -> str:
    for found in objects([line], {"event"}):
        if "level" not in found:  # A result, not a log line.
            return "" if found["event"] == "progress" else line
        causes = [f"{each['exc_type']}: {each['exc_value']}" for each in found.pop("exception", [])]
        fields = [f"{key}={value}" for key, value in found.items() if key not in LOG_KEYS]
        return " ".join([found["level"], str(found["event"]), *fields, *causes])
    return line


def last_object(lines: Sequence[str], keys: Collection[str], child: str) -> dict[str, Any]:
    """The last of them; InvariantError if there is none."""
    for found in objects(lines[::-1], keys):
        return found
    raise InvariantError(f"{child} ended well but printed no summary with {', '.join(sorted(keys))}; look at its log")
