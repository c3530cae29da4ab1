"""What to do where Kafka gives a worker partitions that it cannot work on."""

from __future__ import annotations

from streams.errors import ConfigError


def more_partitions(interactions: str, configured: int, found: int) -> ConfigError:
    """What to do when the topic of the events has grown."""
    return ConfigError(
        f"{interactions} has {found} partitions or more, but topics.partitions is {configured}: users "
        "have moved between partitions, and sessions would be torn. A topic cannot shrink again: write the events into "
        "a new one of that many partitions, with mini-batches and worker.app of its own"
    )


def torn_partitions(inputs: tuple[str, ...], group: str, partitions: set[int]) -> ConfigError:
    """What to do when partitions of the two inputs went to different workers."""
    return ConfigError(
        f"partitions {sorted(partitions)} of {' and '.join(inputs)} were given to different workers of group "
        f"{group}: they do not all read both topics. Stop all of them, then start them with the same configuration"
    )
