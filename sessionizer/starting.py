"""Where a recovered partition reads on. Pure: what Kafka remembers comes in, a position goes out."""

from __future__ import annotations

from msgspec import UNSET

from sessionizer.outlet import Recovered
from streams.errors import InvariantError
from streams.inputs import Input, Position


def start_position(recovered: Recovered, *, two: bool) -> Position:
    """Where to read on; InvariantError when those records are gone or never were."""
    progress, begin = recovered.progress, recovered.begin
    if progress.cut is None:
        return begin
    start = progress.cut.position
    if two and progress.cut.next_outcome is UNSET:
        # Outcomes have been given a topic of their own since.
        start = start.moved(Input.OUTCOMES, begin.outcomes)
    for source in Input:
        if start[source] < begin[source]:
            raise InvariantError(
                f"the records of the {source.name.lower()} from offset {start[source]} to {begin[source]} expired "
                "before they were read, so sessions would be torn; raise the topic's retention; to go on without them "
                "choose another worker.app and mini-batch topic"
            )
        if progress.position[source] > recovered.end[source]:
            raise InvariantError(
                f"offset {progress.position[source]} of the {source.name.lower()} was processed but the partition ends "
                f"at {recovered.end[source]}: the topic was deleted and made anew; choose another worker.app and "
                "mini-batch topic"
            )
    return start
