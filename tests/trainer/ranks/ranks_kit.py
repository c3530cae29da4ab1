"""Real processes that are the ranks of a group, over gloo on this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch

from trainer.ranks.place import Place, place_of

_FORKING = get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.trainer.ranks.ranks_kit", "trainer.ranks.sharded_tables"])
_WAIT_S = 240


def run(size: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:  # noqa: ANN401  (whatever the work wants)
    """`work(place, *arguments)` in a process for each rank; what each returned."""
    port = free_port()
    processes, answers = [], []
    for rank in range(size):
        receiver, sender = _FORKING.Pipe(duplex=False)
        process = _FORKING.Process(target=_rank, args=(rank, size, port, sender, work, arguments), daemon=True)
        process.start()
        sender.close()
        processes.append(process)
        answers.append(receiver)
    try:
        return [_answer(each) for each in answers]
    finally:
        for process in processes:
            process.kill()
            process.join()


def _answer(receiver: Connection) -> Any:  # noqa: ANN401  (what the work returned)
    assert receiver.poll(_WAIT_S), "a rank hangs"
    return receiver.recv()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun would set."""
    numbers = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    return {name: str(number) for name, number in numbers.items()} | {"MASTER_ADDR": "127.0.0.1"}


def _rank(
    rank: int, size: int, port: int, answer: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    os.environ.update(environment(rank, size, port))
    torch.set_num_threads(1)
    place = place_of(os.environ)
    assert isinstance(place, Place)
    answer.send(work(place, *arguments))
