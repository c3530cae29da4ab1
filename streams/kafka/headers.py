"""Names of the record headers that recd writes. Stored in topics: never rename."""

from __future__ import annotations

from typing import Final

from streams.events.record import APPENDED_HEADER
from streams.routing import origin

APPENDED_MS: Final = APPENDED_HEADER
"""Wall clock of the producer when it appended the record; `streams.events.record` reads it."""

ORIGIN, ORIGIN_PARTITION, ORIGIN_OFFSET = origin.ORIGIN, origin.ORIGIN_PARTITION, origin.ORIGIN_OFFSET
"""Routed records, and dead letters of them: the record that `recd route` read."""

SOURCE: Final = "recd-source"
"""Dead letters: the topic, or the file, that the record came from."""
SOURCE_PARTITION: Final = "recd-source-partition"
"""Dead letters from a topic: partition of the record."""
SOURCE_OFFSET: Final = "recd-source-offset"
"""Dead letters from a topic: offset of the record."""
SOURCE_LINE: Final = "recd-source-line"
"""Dead letters from a file: line of the record, from 1 (a row's number where the file has no lines)."""
REASON: Final = "recd-reason"
"""Dead letters: `streams.errors.Reason`."""
DETAIL: Final = "recd-detail"
"""Dead letters: what exactly is wrong, for a person."""
REJECTED_MS: Final = "recd-rejected-ms"
"""Dead letters: wall clock when the record was rejected."""
CUT_FROM_BYTES: Final = "recd-cut-from-bytes"
"""Dead letters whose value was cut: its size before."""
