"""What leaves in one call: closings and corrections as samples in packing order.

Owns that order, the stage of each sample and the labels it leaves with. Never decides what leaves.

Packing order is (ready_ms, user, first event); a correction is ordered by its own event, behind a closing that begins
with the same one. Corrections of one session that are ready at once stay together.

Shape suffixes: B samples, C closings, K corrections, U of both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sessionizer.corrections import Corrections, Memory
from sessionizer.history import Histories
from sessionizer.measures import with_measures
from sessionizer.packer import Clustered
from sessionizer.rows import Rows
from streams.events.label_rules import finished
from streams.events.schema import EventKind, Label
from streams.stage import Stage

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def samples_of(
    closings_C: npt.NDArray[np.void],
    rows_B: I32,
    corrections: Corrections,
    rows: Rows,
    histories: Histories,
    memory: Memory,
    labels: tuple[Label, ...],
) -> Clustered:
    """`rows_B` are the rows of all closings, one closing after the other. At least one sample or correction."""
    sizes_C, names = closings_C["size"], np.concatenate([rows_B, corrections.rows])
    sizes_U = np.concatenate([sizes_C, np.ones(len(corrections), np.int64)]).astype(np.int64)
    ready_U = np.concatenate([closings_C["ready_ms"], corrections.ready_ms])
    session_U = np.concatenate([closings_C["session_id"], corrections.session_id])
    corrects_U = np.arange(len(sizes_U)) >= len(closings_C)
    order_U = (
        _order(closings_C, corrections, ready_U, corrects_U, rows) if len(corrections) else np.arange(len(sizes_U))
    )
    places_B, starts_U = _places(sizes_U, order_U)
    together_U = np.zeros(len(order_U), np.bool_)
    now, before = order_U[1:], order_U[:-1]
    together_U[1:] = (
        corrects_U[now] & corrects_U[before] & (ready_U[now] == ready_U[before]) & (session_U[now] == session_U[before])
    )
    first_B = np.zeros(len(names), np.bool_)
    first_B[starts_U[~together_U]] = True
    told = np.concatenate([finished(labels, rows.labels[rows_B]), _turned(corrections)])
    stage = np.concatenate([_stages(closings_C, rows_B, rows, memory), np.full(len(corrections), Stage.CORRECTION)])
    names = names[places_B]
    ends_BH, tips_BH = rows.ends[names], rows.tips[names]
    return Clustered(
        events=with_measures(replace(rows.take(names), labels=told[places_B]), histories, ends_BH, tips_BH),
        histories=histories.read(ends_BH, tips_BH),
        session_id=np.repeat(session_U[order_U], sizes_U[order_U]),
        ready_ms=np.repeat(ready_U[order_U], sizes_U[order_U]),
        first=first_B,
        stage=stage[places_B].astype(np.uint8),
    )


def _order(
    closings_C: npt.NDArray[np.void],
    corrections: Corrections,
    ready_U: I64,
    corrects_U: npt.NDArray[np.bool_],
    rows: Rows,
) -> I64:
    keys = rows.keys[corrections.rows]
    user_U = np.concatenate([closings_C["user"], keys["user"]])
    first_ms_U = np.concatenate([closings_C["first_ms"], keys["time"]])
    first_id_U = np.concatenate([closings_C["first_id"], keys["id"]])
    return np.lexsort((corrects_U, first_id_U, first_ms_U, user_U, ready_U))


def _places(sizes_U: I64, order_U: I64) -> tuple[I64, I64]:
    """Where each sample comes from once the units are in order, and where each unit begins then."""
    old_U, sizes_U = (np.cumsum(sizes_U) - sizes_U)[order_U], sizes_U[order_U]
    new_U = np.cumsum(sizes_U) - sizes_U
    return np.repeat(old_U - new_U, sizes_U) + np.arange(int(sizes_U.sum())), new_U


def _stages(closings_C: npt.NDArray[np.void], rows_B: I32, rows: Rows, memory: Memory) -> npt.NDArray[np.uint8]:
    keys = rows.keys
    # A cap cuts before the outcomes of that very moment have acted.
    known_ms_B = np.repeat(closings_C["ready_ms"] - closings_C["cut"], closings_C["size"])
    impressions_B = keys["kind"][rows_B] == EventKind.IMPRESSION
    turns_B = memory.is_provisional(keys["time"][rows_B], impressions_B, known_ms_B)
    return np.where(turns_B, Stage.PROVISIONAL, Stage.SETTLED).astype(np.uint8)


def _turned(corrections: Corrections) -> npt.NDArray[np.float32]:
    """[K, T]: 1 where a label has turned; a correction says nothing of the others."""
    return np.where(corrections.turned, np.float32(1), np.float32(np.nan))
