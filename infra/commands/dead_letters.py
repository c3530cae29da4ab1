"""What `recd inspect dead-letters` shows: the latest letters, and how many there are by reason.

Owns the choice and the wording. Reading is `streams.kafka.letters`.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import asdict

import msgspec

from streams.kafka.letters import Letter

_HEAD_CHARACTERS = 100


def show_letters(letters: Iterable[Letter], topic: str, last: int, *, as_json: bool) -> None:
    """Print the `last` letters by the time they were written, then the counts."""
    reasons: Counter[str] = Counter()
    latest: defaultdict[int, deque[Letter]] = defaultdict(lambda: deque(maxlen=last))
    for letter in letters:
        reasons[letter.reason] += 1
        latest[letter.partition].append(letter)
    shown = sorted((each for some in latest.values() for each in some), key=lambda each: each.written_ms)[-last:]
    for each in shown:
        sys.stdout.write((msgspec.json.encode(asdict(each)).decode() if as_json else _lines(each)) + "\n")
    if as_json:
        summary = {"event": "summary", "ok": True, "shown": len(shown), "total": reasons.total(), "reasons": reasons}
        sys.stdout.write(f"{msgspec.json.encode(summary).decode()}\n")
    else:
        counts = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        sys.stdout.write(f"{topic}: {reasons.total()} dead letters{f' ({counts})' if counts else ''}\n")


def _lines(letter: Letter) -> str:
    place = f"line {letter.source_line}" if letter.source_line is not None else f"offset {letter.source_offset}"
    source = f"{letter.source}[{letter.source_partition}]" if letter.source_partition is not None else letter.source
    if letter.origin:
        place += f", routed from {letter.origin}[{letter.origin_partition}] offset {letter.origin_offset}"
    head = letter.head[:_HEAD_CHARACTERS].replace("\n", "\\n")
    more = "…" if letter.size_bytes > len(head) else ""
    detail = letter.detail.replace("\n", "\\n")
    return f"{letter.reason}  {source} {place}: {detail}\n    {letter.size_bytes} bytes: {head}{more}"
