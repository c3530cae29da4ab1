"""Records to a sample, through the sessionizer's own core.

Owns one core a partition, with every feature as a group of its own, and the bound on memory: when the sample has grown
to it, reading stops and the sample is what was read. Never forms a session itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from infra.advise.source import Poll
from infra.config import Config
from sessionizer.account import Account
from sessionizer.core import PartitionCore
from sessionizer.effects import Effect, EmitBatch
from streams.advisor.gather import Gatherer
from streams.advisor.sample import Sample
from streams.clock_mark import ClockMark, MarkKind
from streams.errors import ConfigError
from streams.events.decode import EventDecoder
from streams.events.messages import Format

MEMORY_BYTES: Final = 1536 * 1024 * 1024
"""Of the sample's distinct rows; measuring it takes about as much again."""


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """A sample, and what became of the events it was made of."""

    sample: Sample
    account: Account
    reasons: dict[str, int]
    """Events that could not be used, by reason."""
    full: bool
    """Whether reading stopped at the bound on memory."""
    begins_late: bool
    """Whether events of some partition before the sample were left out."""


def gather(
    polls: Iterable[Poll], settings: Config, memory_bytes: int = MEMORY_BYTES, message_format: Format | None = None
) -> Sampled:
    """The sample of all polls, JSON unless told otherwise. ConfigError if no event of them can be used."""
    schema = replace(settings.schema, groups=())
    decoder, gatherer = EventDecoder(schema, message_format), Gatherer(schema.feature_names)
    cores: dict[int, PartitionCore] = {}
    reasons: Counter[str] = Counter()
    first, full, late = "", False, False
    for partition, records in polls:
        if partition not in cores:
            late = late or records[0].offset > 0
            cores[partition] = PartitionCore(schema, settings.session, settings.batch, partition, settings.join)
        decoded = decoder.decode(records)
        reasons.update(str(rejected.reason) for rejected in decoded.rejected)
        first = first or next((rejected.detail for rejected in decoded.rejected), "")
        core = cores[partition]
        take(gatherer, core.feed(decoded.events, rejected=len(decoded.rejected), next_offset=decoded.next_offset))
        full = gatherer.held_bytes > memory_bytes
        if full:
            break
    for partition, core in cores.items():
        take(gatherer, core.apply(ClockMark(partition=partition, after_offset=core.next_offset, kind=MarkKind.END)))
    account = sum((core.account for core in cores.values()), Account())
    if not account.emitted:
        why = f": {dict(reasons)}, the first: {first}" if reasons else "; the topic or file holds none"
        raise ConfigError(f"no event of the sample can be used{why}")
    return Sampled(gatherer.sample(), account, dict(reasons), full, late)


def take(gatherer: Gatherer, effects: Iterable[Effect]) -> None:
    """Keep the mini-batches among what the core orders."""
    for effect in effects:
        if isinstance(effect, EmitBatch):
            gatherer.add(effect.batch)
