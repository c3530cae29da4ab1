"""Real processes that are the ranks of a group, over gloo on this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch

from streams.errors import RecdError
from trainer.ranks.place import Place, place_of

_FORKING = get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.trainer.ranks.ranks_kit", "tests.trainer.ranks.training_kit"])
_WAIT_S = 240


def run(size: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:  # noqa: ANN401  (whatever the work wants)
    """`work(place, *arguments)` in a process for each rank; what each returned. No rank may fail."""
    answers = [answer for answer, _ in _all(size, work, arguments)]
    for rank, answer in enumerate(answers):
        assert not isinstance(answer, Failure), f"rank {rank}: {answer.words}"
    return answers


def fates(size: int, work: Callable[..., Any], *arguments: Any) -> list[str]:  # noqa: ANN401  (the same)
    """The same where every rank must fail: what each died of."""
    said = []
    for rank, (answer, exitcode) in enumerate(_all(size, work, arguments)):
        assert isinstance(answer, Failure) or exitcode, f"rank {rank} has ended well"
        said.append(answer.words if isinstance(answer, Failure) else f"died of signal {-exitcode}")
    return said


@dataclass(frozen=True, slots=True)
class Failure:
    """What a rank's work raised."""

    words: str


def _all(size: int, work: Callable[..., Any], arguments: tuple[Any, ...]) -> list[tuple[Any, int]]:
    """Answer and exit code of each rank."""
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
        found = [_answer(each) for each in answers]
        for process in processes:
            process.join(_WAIT_S)
            assert process.exitcode is not None, "a rank does not end"
        return [(answer, process.exitcode or 0) for answer, process in zip(found, processes, strict=True)]
    finally:
        for process in processes:
            process.kill()
            process.join()


def _answer(receiver: Connection) -> Any:  # noqa: ANN401  (what the work returned)
    assert receiver.poll(_WAIT_S), "a rank hangs"
    with suppress(EOFError):
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
    try:
        said = work(place, *arguments)
    except RecdError as error:
        said = Failure("\n".join([str(error), *getattr(error, "__notes__", ())]))
    answer.send(said)
    if isinstance(said, Failure):
        # As a process that fails: nothing is waited for.
        answer.close()
        os._exit(1)
