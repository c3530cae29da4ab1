"""The process group of all ranks: joined at start, left at an orderly end. Owns the choice of backends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from trainer.config import DeviceName
from trainer.ranks.channel import nobody_lost
from trainer.ranks.place import Place


@contextmanager
def joined(place: Place, device: DeviceName, timeout_ms: int) -> Iterator[torch.device]:
    """Be one of the ranks; gives the device of this one.

    After an error the group is not left: that could wait for ranks that are gone. The process is to end.
    """
    mine = torch.device("cuda", place.local_rank) if device == "cuda" else torch.device("cpu")
    if mine.type == "cuda":
        torch.cuda.set_device(mine)
    backend = "gloo" if mine.type == "cpu" else "cpu:gloo,cuda:nccl"
    with nobody_lost():
        dist.init_process_group(
            backend, rank=place.rank, world_size=place.size, timeout=timedelta(milliseconds=timeout_ms)
        )
    yield mine
    dist.destroy_process_group()
