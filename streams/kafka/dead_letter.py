"""Dead letters: records that can never be used, with all that is needed to find, mend and send them again.

Owns what such a record looks like: the original key and value (cut if very large, with a header that says so)
and headers with where it came from, why it was rejected and when. Of one that was routed they also say from where.
Never produces it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streams.errors import Reason
from streams.events.record import Rejected
from streams.kafka import headers
from streams.routing.origin import origin_of

KEPT_BYTES: Final = 1 << 20
"""What is kept of a value: with key and headers it fits every topic of ours."""
_DETAIL_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One record for the dead-letter topic, ready to be produced."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def dead_letter(rejected: Rejected, now_ms: int | None = None) -> DeadLetter:
    """A record of a topic that was rejected; at `now_ms`, if the caller has a clock."""
    record = rejected.record
    source = {
        headers.SOURCE: record.topic,
        headers.SOURCE_PARTITION: str(rejected.partition),
        headers.SOURCE_OFFSET: str(rejected.offset),
    }
    source |= origin_of(record.headers)
    return _letter(record.key, record.value, source, rejected.reason, rejected.detail, now_ms)


def from_line(file: str, line: int, raw: bytes, reason: Reason, detail: str, now_ms: int) -> DeadLetter:
    """A line of a file that was rejected at `now_ms`. It has no key: its user may not even be known."""
    source = {headers.SOURCE: file, headers.SOURCE_LINE: str(line)}
    return _letter(None, raw, source, reason, detail, now_ms)


def _letter(
    key: bytes | None, value: bytes | None, source: dict[str, str], reason: Reason, detail: str, now_ms: int | None
) -> DeadLetter:
    told = source | {headers.REASON: reason, headers.DETAIL: detail[:_DETAIL_CHARACTERS]}
    if now_ms is not None:
        told[headers.REJECTED_MS] = str(now_ms)
    if value is not None and len(value) > KEPT_BYTES:
        told[headers.CUT_FROM_BYTES] = str(len(value))
        value = value[:KEPT_BYTES]
    # Names of files need not be Unicode.
    encoded = [(name, text.encode(errors="surrogateescape")) for name, text in told.items()]
    return DeadLetter(key=key[:KEPT_BYTES] if key else key, value=value, headers=encoded)
