"""Bytes between the ranks: everyone to rank 0, and rank 0 to everyone.

Owns one gloo group, whose calls come from one thread of each process and in the same order in all of them. A rank that
is gone, or silent for longer than the time-out, is a `LostRankError` on every other. Knows no message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor

from streams.errors import RecdError
from trainer.ranks.place import Place

_FRAME: Final = 1024
"""Bytes that every message costs; what is longer goes after it."""
_LENGTH: Final = 8


class LostRankError(RecdError):
    """Another rank has ended or does not answer."""


@contextmanager
def nobody_lost() -> Iterator[None]:
    """Say in words what a failed collective means."""
    try:
        yield
    except (RuntimeError, dist.DistError) as error:
        raise LostRankError(
            "another rank has ended or does not answer; its own message says why. All ranks must start again, from the "
            f"checkpoint: torchrun does so with --max-restarts ({error})"
        ) from error


class Channel:
    """One thread's line to the same thread of the other ranks."""

    def __init__(self, place: Place, timeout_ms: int) -> None:
        """A collective call: all ranks make their channels in the same order."""
        self._place = place
        with nobody_lost():
            group = dist.new_group(backend="gloo", timeout=timedelta(milliseconds=timeout_ms))
        assert isinstance(group, dist.ProcessGroup), "every rank is in it"
        self.group = group

    def gather(self, message: bytes) -> list[bytes]:
        """On rank 0 everyone's message by rank; elsewhere nothing."""
        with nobody_lost():
            frame = _frame_of(message)
            if not self._place.leads:
                dist.gather(frame, dst=0, group=self.group)
                if rest := message[_FRAME - _LENGTH :]:
                    dist.send(_tensor_of(rest), dst=0, group=self.group)
                return []
            frames = [torch.empty_like(frame) for _ in range(self._place.size)]
            dist.gather(frame, frames, dst=0, group=self.group)
            others = [self._whole(each, rank) for rank, each in enumerate(frames) if rank]
        return [message, *others]

    def tell(self, message: bytes) -> None:
        """From rank 0 to everyone, who `hear` it."""
        with nobody_lost():
            dist.broadcast(_frame_of(message), src=0, group=self.group)
            if rest := message[_FRAME - _LENGTH :]:
                dist.broadcast(_tensor_of(rest), src=0, group=self.group)

    def hear(self) -> bytes:
        """What rank 0 tells next."""
        with nobody_lost():
            frame = torch.empty(_FRAME, dtype=torch.uint8)
            dist.broadcast(frame, src=0, group=self.group)
            start, missing = _begin(frame)
            rest = torch.empty(missing, dtype=torch.uint8)
            if missing:
                dist.broadcast(rest, src=0, group=self.group)
        return start + bytes(rest.numpy())

    def _whole(self, frame: Tensor, rank: int) -> bytes:
        start, missing = _begin(frame)
        rest = torch.empty(missing, dtype=torch.uint8)
        if missing:
            dist.recv(rest, src=rank, group=self.group)
        return start + bytes(rest.numpy())


def _frame_of(message: bytes) -> Tensor:
    head = len(message).to_bytes(_LENGTH, "little") + message[: _FRAME - _LENGTH]
    return _tensor_of(head.ljust(_FRAME, b"\0"))


def _tensor_of(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _begin(frame: Tensor) -> tuple[bytes, int]:
    """The part of a message that its frame holds, and how many bytes are missing."""
    data = bytes(frame.numpy())
    length = int.from_bytes(data[:_LENGTH], "little")
    start = data[_LENGTH : _LENGTH + length]
    return start, length - len(start)
