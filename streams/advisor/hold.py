"""Hold times: which batches form when samples wait W for others of their session, and how long each one waits.

Owns the forming of batches and the model of how many samples of a session they hold. W cuts event time into
windows [k·W, (k+1)·W) of each partition. At the end of a window its samples leave, clustered by session, and are
packed next fit as the sessionizer packs (a batch holds whole clusters, only one larger than a batch is split). With
W = 0 every sample leaves at once: batches in time order. "Until the session ends" is what the sessionizer did.

The model. Two neighbours x apart share a window with probability 1 - x/W, as the window's phase is anybody's guess.
Where a session emits r samples a second, x is exponential, and a pair is parted with probability
q = (1 - exp(-rW)) / (rW). A session of S samples then falls into 1 + (S - 1)·q pieces, so

    S_W = S / (1 + (S - 1)·q),    which for long sessions is    rW / (1 - exp(-rW))

A batch that takes T to fill holds its samples for T already, so what counts is the longer of W and T.

Shape suffixes: N samples, C clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from streams.advisor.neighbours import Neighbours
from streams.advisor.sample import I32, I64, Sample
from streams.ikjt.dedup import number_rows
from streams.ikjt.jagged import Jagged
from streams.ikjt.kernels import compiled

SESSION: Final = -1
"""Stands for the hold time "until the session ends"."""
DEFAULT_HOLDS_MS: Final = (0, 10_000, 60_000, 300_000, 1_800_000, SESSION)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Formed:
    """The batches of one hold time."""

    hold_ms: int
    """W, or SESSION."""
    order: I64
    """[N], samples in the order in which they are packed."""
    batch: I32
    """[N], number of the batch, in that order; never decreases."""
    wait_ms: I64
    """[N], how long the sample waits for its batch to be full of what has been released, in that order."""
    cluster: I64
    """[N], equal for samples of one session in one batch, in that order."""

    @property
    def samples_per_session(self) -> float:
        """S_W: samples of a session in a batch, on average."""
        return len(self.order) / max(1, len(np.unique(self.cluster)))


def form(sample: Sample, hold_ms: int, batch_samples: int) -> Formed:
    """The batches of one hold time."""
    if hold_ms == SESSION:
        order, batch, ready_ms = np.arange(len(sample)), sample.batch, sample.ready_ms
    else:
        window = sample.time_ms // hold_ms if hold_ms else sample.time_ms
        within = sample.session if hold_ms else sample.offset
        order = np.lexsort((within, window, sample.partition))
        key = np.stack([sample.partition, window, sample.session if hold_ms else np.arange(len(sample))])[:, order]
        new = np.ones(len(order), np.bool_)
        new[1:] = np.any(key[:, 1:] != key[:, :-1], axis=0)
        starts = np.append(np.flatnonzero(new), len(order))
        batch = next_fit(starts, sample.partition[order[starts[:-1]]], batch_samples)
        ready_ms = _latest((window[order] + 1) * hold_ms if hold_ms else sample.time_ms[order], batch)
    numbers = np.stack([batch, sample.session[order]], axis=1).astype(np.int64)
    _, cluster = number_rows({"cluster": Jagged(numbers.reshape(-1), np.arange(0, 2 * len(order) + 1, 2))})
    return Formed(
        hold_ms=hold_ms,
        order=order,
        batch=batch,
        wait_ms=np.maximum(0, ready_ms - sample.time_ms[order]),
        cluster=cluster.astype(np.int64),
    )


def modelled(sample: Sample, neighbours: Neighbours, hold_ms: int, batch_samples: int) -> float:
    """S_W of the model, from S and r alone."""
    samples_per_session = neighbours.samples_per_session
    if hold_ms == SESSION:
        return samples_per_session
    expected = neighbours.rate_per_ms * max(hold_ms, fill_ms(sample, batch_samples))
    parted = -math.expm1(-expected) / expected if expected > 0 else 1.0
    return samples_per_session / (1 + (samples_per_session - 1) * parted)


def fill_ms(sample: Sample, batch_samples: int) -> float:
    """T: how long a partition takes to fill a batch, on average."""
    return batch_samples * sample.num_partitions * sample.duration_ms / max(1, len(sample))


@compiled
def next_fit(starts: I64, partition: I32, batch_samples: int) -> I32:
    """[N] batch of each sample, for clusters [starts[c], starts[c + 1]) of a partition each: the packer's rule."""
    batch = np.empty(starts[-1], np.int32)
    number, first = 0, 0
    for c in range(len(starts) - 1):
        start, end = starts[c], starts[c + 1]
        if start > first and (end - first > batch_samples or partition[c] != partition[c - 1]):
            number += 1
            first = start
        for n in range(start, end):
            if n - first == batch_samples:
                number += 1
                first = n
            batch[n] = number
    return batch


def _latest(released_ms: I64, batch: I32) -> I64:
    """[N], when the last sample of each one's batch is released."""
    starts = np.flatnonzero(np.diff(batch, prepend=-1))
    latest = np.maximum.reduceat(released_ms, starts) if len(starts) else released_ms
    return np.asarray(np.repeat(latest, np.diff(np.append(starts, len(batch)))))
