"""Which rank a process is."""

from __future__ import annotations

import pytest

from streams.errors import ConfigError
from trainer.ranks.place import place_of

LAUNCHED = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


def test_without_a_launcher_there_is_no_place() -> None:
    assert place_of({"HOME": "/root"}) is None


def test_every_partition_belongs_to_exactly_one_rank() -> None:
    places = [place_of(LAUNCHED | {"RANK": str(rank)}) for rank in range(4)]
    for partition in range(10):
        assert sum(place is not None and place.owns(partition) for place in places) == 1


def test_only_rank_0_leads() -> None:
    places = [place_of(LAUNCHED | {"RANK": str(rank)}) for rank in range(4)]
    assert [place is not None and place.leads for place in places] == [True, False, False, False]


def test_half_an_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="start ranks with torchrun"):
        place_of({"WORLD_SIZE": "2"})
