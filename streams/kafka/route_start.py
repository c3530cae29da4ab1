"""Where a route goes on: at the positions of its last transaction, if they still speak of the same two topics.

Owns the note that is kept with each position, and the refusals: a topic that was deleted and made again has the name
and not the records, so going on would lose some without any error.
"""

from __future__ import annotations

from streams.errors import ConfigError
from streams.kafka.identity import topic_ids
from streams.kafka.route_config import RouteConfig
from streams.kafka.route_source import RouteSource


def note_of(config: RouteConfig) -> str:
    """Which topics positions are about: id of the source and of the target; a dash where it is not to be had."""
    found = topic_ids(config.kafka, (config.source, config.target_topic))
    return " ".join(found.get(name, "-") for name in (config.source, config.target_topic))


def starts_of(config: RouteConfig, source: RouteSource, note: str, *, from_start: bool) -> dict[int, int]:
    """The next offset of each partition. ConfigError if there is no source, or if going on would lose records."""
    partitions = source.num_partitions()
    if not partitions:
        raise ConfigError(f"there is no topic {config.source} to route; `recd route` reads what your producers write")
    first = {partition: each.start for partition, each in source.bounds(partitions).items()}
    if from_start:
        return first
    committed = source.committed(partitions)
    for offset, kept in committed.values():
        _check_note(config, kept, note, offset)
    for partition, (offset, _) in committed.items():
        if offset < first[partition]:
            raise ConfigError(
                f"{config.source}[{partition}] begins at offset {first[partition]}, but {offset} is the next to route: "
                "records were deleted before they were routed. Give the topic a longer retention; --from-start routes "
                "what is left"
            )
    return first | {partition: offset for partition, (offset, _) in committed.items()}


def _check_note(config: RouteConfig, kept: str, note: str, offset: int) -> None:
    for name, before, now in zip((config.source, config.target_topic), kept.split(), note.split(), strict=False):
        if "-" not in (before, now) and before != now:
            raise ConfigError(
                f"{name} was deleted and made again since {config.source} was routed to {config.target_topic} up to "
                f"offset {offset}; --from-start routes all of {config.source} again"
            )
