"""Which rank this process is. Reads what the launcher has put into the environment, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One rank of a group."""

    rank: int
    """0 leads."""
    size: int
    """Ranks in all."""
    local_rank: int
    """Of those on this machine: the number of its GPU."""
    local_size: int
    """Ranks on this machine."""
    attempt: int = 0
    """How often the launcher has started all ranks again."""

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def owns(self, partition: int) -> bool:
        """Whether this rank reads and trains a partition."""
        return partition % self.size == self.rank


def place_of(environment: Mapping[str, str]) -> Place | None:
    """The place that `torchrun` gave this process; None where it did not start it."""
    if "WORLD_SIZE" not in environment:
        return None
    try:
        numbers = [int(environment[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")]
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"WORLD_SIZE is set, but another of the launcher's variables is not ({error}); start ranks with "
            "torchrun, or unset it"
        ) from error
    rank, size, local_rank, local_size = numbers
    attempt = int(environment.get("TORCHELASTIC_RESTART_COUNT", "0"))
    return Place(rank=rank, size=size, local_rank=local_rank, local_size=local_size, attempt=attempt)
