"""Samples for the advisor's tests: from literals, and drawn from known laws.

Owns two ways to a Sample: `of_sessions` from lists that a test writes down, `drawn` from laws (sessions that emit at a
rate, features that are redrawn or shift with a probability).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from numpy.random import PCG64, Generator

from streams.advisor.hold import form
from streams.advisor.sample import Column, Sample
from streams.ikjt.dedup import number_rows
from streams.ikjt.jagged import Jagged, offsets_of

I64 = npt.NDArray[np.int64]


def column(rows: Jagged) -> Column:
    """A column of one row a sample."""
    first, index = number_rows({"rows": rows})
    return Column(rows.take(first), index)


def of_sessions(sessions: Sequence[Sequence[int]], features: Mapping[str, Sequence[Sequence[int]]]) -> Sample:
    """Sessions given by their event times, features by one list a sample, session after session; one batch."""
    num_samples = sum(map(len, sessions))
    times = np.array([time for session in sessions for time in session], np.int64)
    return Sample(
        partition=np.zeros(num_samples, np.int32),
        offset=np.arange(num_samples, dtype=np.int64),
        time_ms=times,
        session=np.repeat(np.arange(len(sessions), dtype=np.int32), [len(session) for session in sessions]),
        batch=np.zeros(num_samples, np.int32),
        ready_ms=np.full(num_samples, times.max() if num_samples else 0),
        columns={name: column(Jagged.from_lists(rows)) for name, rows in features.items()},
    )


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Laws of a sample. All sessions run side by side, each emitting at the same rate."""

    sessions: int = 400
    samples_per_session: float = 16.5
    """Geometric."""
    apart_ms: float = 10_000.0
    """Exponential."""
    spread_ms: int = 3_600_000
    """Sessions begin uniformly within it."""
    redrawn: Mapping[str, float] = field(default_factory=dict)
    """d of features that change by themselves."""
    shifted: Mapping[str, float] = field(default_factory=dict)
    """d of histories that drop their oldest id and append one."""
    length: int = 10
    seed: int = 0


def drawn(laws: Drawn, batch_samples: int = 256) -> Sample:
    """A sample of these laws, in batches of whole sessions by the time of their ends."""
    generator = Generator(PCG64(laws.seed))
    sizes = generator.geometric(1 / laws.samples_per_session, laws.sessions)
    session = np.repeat(np.arange(laws.sessions, dtype=np.int32), sizes)
    first = np.cumsum(sizes) - sizes
    apart = generator.exponential(laws.apart_ms, len(session)).astype(np.int64)
    apart[first] = 0
    elapsed = np.cumsum(apart)
    start = generator.integers(0, laws.spread_ms, laws.sessions)
    time_ms = elapsed - np.repeat(elapsed[first], sizes) + np.repeat(start, sizes)
    fresh = np.zeros(len(session), np.bool_)
    fresh[first] = True
    columns = {name: _redrawn(fresh, d, laws.length, generator) for name, d in laws.redrawn.items()}
    columns |= {name: _shifted(fresh, d, laws.length, generator) for name, d in laws.shifted.items()}
    everything = Sample(
        partition=np.zeros(len(session), np.int32),
        offset=np.arange(len(session), dtype=np.int64),
        time_ms=time_ms,
        session=session,
        batch=np.zeros(len(session), np.int32),
        ready_ms=time_ms,
        columns=columns,
    )
    return with_batches(everything, batch_samples)


def with_batches(sample: Sample, batch_samples: int) -> Sample:
    """The same sample packed by a hold time longer than it lasts: whole sessions."""
    formed = form(sample, 10**15, batch_samples)
    packed = chosen(sample, formed.order)
    return replace(packed, batch=formed.batch, ready_ms=np.full(len(sample), sample.time_ms.max()))


def chosen(sample: Sample, which: I64) -> Sample:
    """Some of the samples, in this order."""
    return Sample(
        partition=sample.partition[which],
        offset=sample.offset[which],
        time_ms=sample.time_ms[which],
        session=sample.session[which],
        batch=sample.batch[which],
        ready_ms=sample.ready_ms[which],
        columns={name: Column(each.rows, each.index[which]) for name, each in sample.columns.items()},
    )


def _redrawn(fresh: npt.NDArray[np.bool_], unchanged: float, length: int, generator: Generator) -> Column:
    new = fresh | (generator.random(len(fresh)) >= unchanged)
    row = np.cumsum(new) - 1
    lengths = generator.integers(1, 2 * length, row[-1] + 1)
    offsets = offsets_of(lengths)
    return column(Jagged(generator.integers(0, 1 << 40, offsets[-1]), offsets).take(row))


def _shifted(fresh: npt.NDArray[np.bool_], unchanged: float, length: int, generator: Generator) -> Column:
    # Every session has a tape of ids; a change moves its window on by one.
    moved = np.cumsum(~fresh & (generator.random(len(fresh)) >= unchanged)) + np.cumsum(fresh) * length
    tape = generator.integers(0, 1 << 40, moved[-1] + length)
    places = moved[:, None] + np.arange(length)
    return column(Jagged(tape[places.reshape(-1)], offsets_of(np.full(len(fresh), length))))
