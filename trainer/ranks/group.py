"""The process group of all ranks: joined at start, left at an orderly end. Owns the choice of backends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # public, but not declared so
from torch.distributed.rendezvous import rendezvous

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
    timeout = timedelta(milliseconds=timeout_ms)
    with nobody_lost():
        store, _, _ = next(rendezvous("env://", place.rank, place.size, timeout=timeout))
        # torchrun's store outlives a restart, and with it the addresses of ranks that are gone.
        own = PrefixStore(f"attempt-{place.attempt}", store)
        dist.init_process_group(backend, store=own, rank=place.rank, world_size=place.size, timeout=timeout)
    yield mine
    dist.destroy_process_group()
