"""A rank's share of a step, and the whole of it that rank 0 scores and accounts for. Pure.

Shape suffixes: B samples of the step, M samples of one rank, T tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streams.minibatch import MiniBatch
from streams.stage import Stage
from trainer.labelling import Labelling
from trainer.ledger import Entry
from trainer.ranks.messages import Share
from trainer.row_uses import row_uses
from trainer.tensors import Counts, StepBatch

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Mine:
    """A rank's part of a step."""

    tensors: StepBatch | None
    """None without a mini-batch."""
    batches: tuple[MiniBatch, ...]
    """As they came."""


class EveryRanks(Sequence[MiniBatch]):
    """The mini-batches of a step in its order, fetched from the other ranks when somebody looks at them."""

    def __init__(self, mine: Mine, entries: Sequence[Entry], fetch: Callable[[], list[MiniBatch]]) -> None:
        self._mine = mine
        self._entries = entries
        self._fetch = fetch
        self._fetched: list[MiniBatch] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, place: int) -> MiniBatch: ...

    @overload
    def __getitem__(self, place: slice) -> list[MiniBatch]: ...

    def __getitem__(self, place: int | slice) -> MiniBatch | list[MiniBatch]:
        if self._fetched is None:
            found = {(each.partition, each.sequence): each for each in (*self._mine.batches, *self._fetch())}
            self._fetched = [found[entry.partition, entry.sequence] for entry in self._entries]
        return self._fetched[place]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WholeBatch(StepBatch):
    """Labels, weights and counts of all ranks' samples in the step's order; what is looked up is of rank 0 alone."""

    mine: StepBatch | None
    """Rank 0's own part; None where it has no mini-batch in the step."""
    padded_B: Tensor
    """Where each sample stands in [ranks * most, …], the ranks' parts one after the other, all padded to the most."""
    most: int
    """Samples of the rank that has most."""
    bags: int
    """The same of bags."""

    @property
    def weight(self) -> float:
        """Of all samples: what the loss is a mean over."""
        return float(self.labelling.weights_BT(self.weights_BT, torch.float32).sum())


def share_of(batch: StepBatch | None, appended_ms: I64, corrections: int) -> Share:
    """What rank 0 must know of a part."""
    if batch is None:
        nothing = b""
        return Share(
            labels_BT=nothing, weights_BT=nothing, stage_B1=None, offset_B1=None, stands_for_B1=None,
            appended_ms=nothing, corrections=0, bags=0, ids=0, ids_expanded=0, rows={}, out_of_range={}, missing={},
        )  # fmt: skip
    labelling, counts = batch.labelling, batch.counts
    return Share(
        labels_BT=_bytes(batch.labels_BT),
        weights_BT=_bytes(batch.weights_BT),
        stage_B1=None if labelling.stage_B1 is None else _bytes(labelling.stage_B1.to(torch.int8)),
        offset_B1=None if labelling.offset_B1 is None else _bytes(labelling.offset_B1),
        stands_for_B1=None if labelling.stands_for_B1 is None else _bytes(labelling.stands_for_B1),
        appended_ms=appended_ms.tobytes(),
        corrections=corrections,
        bags=len(batch.offsets_N1) - 1,
        ids=counts.ids,
        ids_expanded=counts.ids_expanded,
        rows=dict(counts.rows),
        out_of_range=dict(counts.out_of_range),
        missing=dict(counts.missing),
    )


def whole_of(mine: StepBatch | None, shares: Sequence[Share], entries: Sequence[Entry], tasks: int) -> WholeBatch:
    """The step from every rank's share; partition p is of rank p modulo the number of ranks."""
    sizes = np.asarray([len(share.labels_BT) // (4 * tasks) for share in shares])
    most = int(sizes.max())
    padded_B, place_B = _places(entries, len(shares), most), _places(entries, len(shares), sizes)

    def column(name: str, dtype: type[np.generic], width: int, default: float) -> Tensor:
        parts = [
            np.full((size, width), default, dtype)
            if stored is None
            else np.frombuffer(stored, dtype).reshape(-1, width)
            for size, stored in ((size, getattr(share, name)) for size, share in zip(sizes, shares, strict=True))
        ]
        return torch.from_numpy(np.concatenate(parts)[place_B])

    def optional(name: str, dtype: type[np.generic], default: float) -> Tensor | None:
        return column(name, dtype, 1, default) if any(getattr(share, name) is not None for share in shares) else None

    nothing = np.empty(0, np.int64), np.zeros(1, np.int64)
    labels_BT = column("labels_BT", np.float32, tasks, 0)
    return WholeBatch(
        labels_BT=labels_BT,
        weights_BT=column("weights_BT", np.float32, tasks, 0),
        dense_BK=torch.empty(len(labels_BT), 0),
        ids_V=torch.from_numpy(nothing[0]),
        offsets_N1=torch.from_numpy(nothing[1]),
        uses=row_uses(*nothing),
        features={},
        expansions={},
        counts=_summed(shares),
        labelling=Labelling(
            stage_B1=optional("stage_B1", np.int8, int(Stage.SETTLED)),
            offset_B1=optional("offset_B1", np.float64, 0.0),
            stands_for_B1=optional("stands_for_B1", np.float64, 1.0),
        ),
        mine=mine,
        padded_B=torch.from_numpy(padded_B),
        most=most,
        bags=max(share.bags for share in shares),
    )


def _places(entries: Sequence[Entry], size: int, room: int | npt.NDArray[Any]) -> I64:
    """Of every sample in the step's order, where the ranks' parts stand one after the other in so much room each."""
    first = np.concatenate([[0], np.cumsum(np.broadcast_to(room, size))])[:-1]
    places = []
    for entry in entries:
        rank = entry.partition % size
        places.append(np.arange(first[rank], first[rank] + entry.samples))
        first[rank] += entry.samples
    return np.concatenate(places).astype(np.int64)


def _summed(shares: Sequence[Share]) -> Counts:
    return Counts(
        rows=_sum(share.rows for share in shares),
        ids=sum(share.ids for share in shares),
        ids_expanded=sum(share.ids_expanded for share in shares),
        out_of_range=_sum(share.out_of_range for share in shares),
        missing=_sum(share.missing for share in shares),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for each in counts:
        for name, number in each.items():
            summed[name] = summed.get(name, 0) + number
    return summed


def _bytes(column: Tensor) -> bytes:
    return column.contiguous().numpy().tobytes()
