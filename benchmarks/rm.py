"""The synthetic streams rm1, rm2 and rm3: the shapes of RecD's three models, by fixed laws.

Owns the laws and the samples. What an ideal coder needs for them is `benchmarks.floor`.

Sessions have a geometric number of samples, mean 16.5, whose times are uniform over the whole stream: about 1.15
samples of a session stand in 4096 neighbours in time. Lists are of uniform length 1…2×mean, ids bounded Zipf 1.05 over
1,000,000 under one seeded permutation. A redrawn list is a new one with probability 1-d a sample; an appended one
loses its oldest id and gains a new one with that probability, and the histories of a model do so together. Dense
values are normal, 5 % of the labels are 1.

Everything is a hash of (seed, session, feature, place), so any sample can be drawn alone and is the same in either
order. Shapes: B samples, S samples of the stream, C sessions, V values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged, offsets_of
from streams.minibatch import Lineage, MiniBatch

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

BATCH: Final = 4096
NUM_IDS: Final = 1_000_000
EXPONENT: Final = 1.05
SAMPLES_PER_SESSION: Final = 16.5
IN_TIME_ORDER: Final = 1.15
"""Samples per session in a batch in time order."""
LABEL_RATE: Final = 0.05
_WINDOWS: Final = round(SAMPLES_PER_SESSION / (IN_TIME_ORDER - 1))
"""Batches of the stream: a session meets itself 0.15 times in one of so many."""
_EPOCH_MS: Final = 1_700_000_000_000
_SAMPLES_PER_MS: Final = 1
_LENGTH, _EVENT, _ID, _DENSE, _LABEL, _NAME = (np.uint64(k) for k in range(1, 7))


@dataclass(frozen=True, slots=True, kw_only=True)
class Laws:
    """What tells one stream from another."""

    name: str
    histories: int
    history_mean: int
    history_d: float
    users: int
    user_mean: int
    user_d: float
    items: int
    item_mean: int = 2
    user_dense: int = 10
    item_dense: int = 3


STREAMS: Final = {
    laws.name: laws
    for laws in (
        Laws(name="rm1", histories=3, history_mean=100, history_d=0.9, users=30, user_mean=20, user_d=0.95, items=10),
        Laws(name="rm2", histories=0, history_mean=0, history_d=0.0, users=60, user_mean=10, user_d=0.9, items=20),
        Laws(name="rm3", histories=0, history_mean=0, history_d=0.0, users=20, user_mean=40, user_d=0.8, items=10),
    )
}


def zipf() -> F64:
    """[NUM_IDS], probability of each rank."""
    weight: F64 = np.arange(1, NUM_IDS + 1, dtype=np.float64) ** -EXPONENT
    return np.asarray(weight / weight.sum())


class Stream:
    """One stream: mini-batches of its samples, clustered by session or in time order."""

    def __init__(self, laws: Laws, seed: int = 0) -> None:
        self.laws = laws
        self._seed = np.uint64(seed)
        generator = np.random.default_rng(seed)
        num_samples = BATCH * _WINDOWS
        sizes = generator.geometric(1 / SAMPLES_PER_SESSION, num_samples // 8)
        sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), num_samples)) + 1]
        self._session: I64 = np.repeat(np.arange(len(sizes)), sizes)[:num_samples]  # [S]
        self._place: I64 = np.arange(num_samples) - offsets_of(sizes)[self._session]  # [S]
        time = generator.random(num_samples)
        time = time[np.lexsort((time, self._session))]
        self._time_ms: I64 = _EPOCH_MS + (time * num_samples / _SAMPLES_PER_MS).astype(np.int64)  # [S]
        self._by_time: I64 = np.argsort(time)  # [S]
        self._offset = np.empty_like(self._by_time)  # [S]
        self._offset[self._by_time] = np.arange(num_samples)
        self._ids: I64 = generator.permutation(NUM_IDS)
        self._cdf = np.cumsum(zipf())

    def clustered(self, k: int) -> MiniBatch:
        """Batch k of the samples in the order of their sessions."""
        return self._batch(np.arange(k * BATCH, (k + 1) * BATCH), k)

    def in_time_order(self, k: int) -> MiniBatch:
        """Batch k of the same samples in the order of their times."""
        return self._batch(self._by_time[k * BATCH : (k + 1) * BATCH], k)

    @cached_property
    def _history_versions(self) -> I64:
        return self._versions(0, self.laws.history_d)

    def _batch(self, chosen: I64, sequence: int) -> MiniBatch:
        """Of the chosen samples."""
        laws, groups = self.laws, []
        if laws.histories:
            features = {f"history{h}": self._history(chosen, h) for h in range(laws.histories)}
            groups.append(deduplicate("history", features))
        groups += [self._user(chosen, f) for f in range(laws.users)]
        items = {f"item{f}": self._item(chosen, f) for f in range(laws.items)}
        groups.append(deduplicate("item", items))
        return MiniBatch(
            partition=0,
            sequence=sequence,
            watermark_ms=0,
            fingerprint=0,
            lineage=Lineage(
                offset=self._offset[chosen],
                event_id=self._key(_NAME, chosen, 0),
                session_id=self._key(_NAME, self._session[chosen], 1),
                event_time_ms=self._time_ms[chosen],
                appended_ms=self._time_ms[chosen] + (_uniform(self._key(_NAME, chosen, 2)) * 50).astype(np.int64),
            ),
            labels=(_uniform(self._key(_LABEL, chosen)) < LABEL_RATE).astype(np.float32)[:, None],
            dense=self._dense(chosen),
            groups=tuple(groups),
        )

    def _history(self, chosen: I64, feature: int) -> Jagged:
        """Window of the session's own list of ids, moved on by one at each append."""
        session = self._session[chosen]
        lengths = _uniform_length(self._key(_LENGTH, session, 0), self.laws.history_mean)
        appended = self._history_versions[chosen]
        return self._rows(session, lengths, appended, 1 + feature)

    def _user(self, chosen: I64, feature: int) -> Ikjt:
        """Redrawn on its own."""
        name, feature = f"user{feature}", 100 + feature
        # The row is a function of the sample at which it was drawn; drawn once and pointed to by later samples.
        drawn = self._drawn_at(feature, self.laws.user_d)[chosen]
        return deduplicate(name, {name: self._list_at(drawn, feature, self.laws.user_mean)})

    def _item(self, chosen: I64, feature: int) -> Jagged:
        return self._list_at(chosen, 500 + feature, self.laws.item_mean)

    def _list_at(self, drawn: I64, feature: int, mean: int) -> Jagged:
        """The list that was drawn at each of these samples."""
        lengths = _uniform_length(self._key(_LENGTH, drawn, feature), mean)
        return self._rows(drawn, lengths, np.zeros(len(drawn), np.int64), feature)

    def _rows(self, owner: I64, lengths: I64, start: I64, feature: int) -> Jagged:
        """Row b: the ids at places start[b] up to start[b] + lengths[b] of its owner."""
        offsets = offsets_of(lengths)
        row = np.repeat(np.arange(len(owner)), lengths)
        place = np.arange(int(offsets[-1])) - offsets[row] + start[row]
        rank = np.searchsorted(self._cdf, _uniform(self._key(_ID, owner[row], feature, place)), side="right")
        return Jagged(self._ids[np.minimum(rank, NUM_IDS - 1)], offsets)

    def _events(self, feature: int, d: float) -> npt.NDArray[np.bool_]:
        """[S], whether the feature changed at this sample; the first sample of a session is no event."""
        every = np.arange(len(self._session))
        return (_uniform(self._key(_EVENT, every, feature)) < 1 - d) & (self._place > 0)

    def _drawn_at(self, feature: int, d: float) -> I64:
        """[S], the sample at which the list of each sample was drawn."""
        every = np.arange(len(self._session))
        here = self._events(feature, d) | (self._place == 0)
        return np.maximum.accumulate(np.where(here, every, 0))

    def _versions(self, feature: int, d: float) -> I64:
        """[S], events of the session up to this sample."""
        events = np.cumsum(self._events(feature, d))
        first = np.arange(len(self._session)) - self._place
        return np.asarray(events - events[first])

    def _dense(self, chosen: I64) -> npt.NDArray[np.float32]:
        """[B, K]: the session's columns, then the sample's."""
        session = self._session[chosen]
        columns = [self._normal(session, k) for k in range(self.laws.user_dense)]
        columns += [self._normal(chosen, 100 + k) for k in range(self.laws.item_dense)]
        return np.ascontiguousarray(np.stack(columns, axis=1).astype(np.float32))

    def _normal(self, owner: I64, column: int) -> F64:
        """Box and Muller's way from two uniform numbers."""
        radius = np.sqrt(-2 * np.log(1 - _uniform(self._key(_DENSE, owner, column, 0))))
        normal: F64 = radius * np.cos(2 * np.pi * _uniform(self._key(_DENSE, owner, column, 1)))
        return normal

    def _key(self, what: np.uint64, *parts: int | I64) -> U64:
        """A hash of all parts."""
        key = _mix(np.atleast_1d(self._seed ^ (what << np.uint64(32))))
        for part in parts:
            key = _mix(key ^ np.asarray(part).astype(np.uint64))
        return key


def batches(laws: Laws, count: int, seed: int = 0) -> Iterator[tuple[MiniBatch, MiniBatch]]:
    """Pairs of a clustered mini-batch and one in time order."""
    stream = Stream(laws, seed)
    for k in range(count):
        yield stream.clustered(k), stream.in_time_order(k)


def _uniform_length(key: U64, mean: int) -> I64:
    """1…2×mean."""
    lengths: I64 = 1 + (_uniform(key) * 2 * mean).astype(np.int64)
    return lengths


def _uniform(key: U64) -> F64:
    """[0, 1) in 53 bits."""
    return np.asarray((key >> np.uint64(11)) * 2.0**-53, np.float64)


def _mix(key: npt.NDArray[Any]) -> U64:
    """SplitMix64."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(key ^ (key >> np.uint64(31)))
