"""A log whose laws are known, so that what recd measures on it can be checked.

The laws, each with its own seeded draw:
- users: bounded Zipf over `users`; items and list ids likewise over `items`; ids are a seeded permutation of ranks.
- sessions: length geometric with mean `session_samples`; inside one, neighbours are 1 ms + Exp(`within_ms`) apart, cut
  off below `gap_ms`; between two sessions of a user lie `gap_ms` + Exp(`between_ms`).
- lists: a group's lists keep the previous row of the session with probability d, and are redrawn together otherwise.
  A list is uniform in length from 1 to twice its mean.
- labels: Bernoulli of sigmoid(base + user bias + item bias + user vector · item vector). No model can know more than
  these probabilities, so their log loss is the best achievable.

Owns: the draws and the figures that follow from the laws. Never: writes a file or knows a topic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.random import PCG64, Generator, SeedSequence

from streams.errors import ConfigError

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

MAX_SAMPLES: Final = 2_000_000
LATEST_MS: Final = 1_767_225_600_000
"""2026-01-01: the log ends before it, so that no event lies in the future."""
FACTORS: Final = 4
"""Width of the hidden vectors of users and items."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListGroup:
    """Lists that change together."""

    name: str
    duplication: float
    """d: probability that a row equals the one before it in the session."""
    features: tuple[str, ...]
    mean_length: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Laws:
    """Everything the log follows."""

    samples: int
    seed: int = 0
    users: int = 1_000
    items: int = 2_000
    zipf: float = 1.05
    session_samples: float = 16.5
    """Mean length of a session."""
    gap_ms: int = 1_800_000
    within_ms: int = 20_000
    between_ms: int = 1_200_000
    groups: tuple[ListGroup, ...] = (
        ListGroup(name="taste", duplication=0.9, features=("watched", "saved"), mean_length=20),
        ListGroup(name="context", duplication=0.5, features=("nearby",), mean_length=10),
    )
    base_logit: float = -1.0
    bias_scale: float = 0.8
    factor_scale: float = 0.6

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise ConfigError(f"--synthetic {self.samples}: give a number of samples from 1 to {MAX_SAMPLES}")

    def factor(self, group: ListGroup, session_samples: float) -> float:
        """The dedup factor that follows for sessions of this mean length: 1 / (1 - (S - 1)/S · d)."""
        return 1 / (1 - (session_samples - 1) / session_samples * group.duplication)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """One list feature: rows that are drawn once and used by several samples."""

    values: I64
    offsets: I64
    """[rows + 1]."""
    row: I64
    """[B], the row each sample uses."""

    def of(self, sample: int) -> list[int]:
        """The list of one sample."""
        row = self.row[sample]
        ids: list[int] = self.values[self.offsets[row] : self.offsets[row + 1]].tolist()
        return ids


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticLog:
    """B samples in event-time order, with what no model may see: their probabilities."""

    laws: Laws
    time_ms: I64
    user: I64
    item: I64
    label: I64
    probability: F64
    sessions: int
    lists: dict[str, Lists] = field(default_factory=dict)

    @property
    def session_samples(self) -> float:
        """S of this draw."""
        return len(self.time_ms) / self.sessions

    def expected_factors(self) -> dict[str, float]:
        """Dedup factor of each list group by the formula, for this draw's S."""
        return {group.name: self.laws.factor(group, self.session_samples) for group in self.laws.groups}

    def factor_tolerance(self, group: str) -> float:
        """Relative tolerance of the measured factor: four standard errors of a count of distinct rows, or 2 %."""
        distinct = len(self.time_ms) / self.expected_factors()[group]
        return max(0.02, 4 / float(np.sqrt(distinct)))

    def best_ne(self) -> tuple[float, float]:
        """NE of the true probabilities on these labels, and its standard error: no model does better but by luck."""
        loss = -np.log(np.where(self.label == 1, self.probability, 1 - self.probability))
        base = _entropy(float(self.label.mean()))
        return float(loss.mean()) / base, float(loss.std()) / base / float(np.sqrt(len(loss)))

    def expected_best_ne(self) -> float:
        """The same in expectation over the labels."""
        return float(_entropies(self.probability).mean()) / _entropy(float(self.probability.mean()))


def draw(laws: Laws) -> SyntheticLog:
    """The log of these laws; equal laws give equal logs."""
    users, sessions, times, weights, items, labels, lists = SeedSequence(laws.seed).spawn(7)
    length = _session_lengths(laws, _generator(sessions))
    session = np.repeat(np.arange(len(length)), length)
    user_of_session = _zipf_ids(laws, laws.users, len(length), _generator(users))
    time_ms = _times(laws, length, user_of_session, _generator(times))
    order = np.argsort(time_ms, kind="stable")
    user, item = user_of_session[session], _zipf_ids(laws, laws.items, laws.samples, _generator(items))
    probability = _probabilities(laws, user, item, _generator(weights))
    label = (_generator(labels).random(laws.samples) < probability).astype(np.int64)
    return SyntheticLog(
        laws=laws,
        time_ms=time_ms[order],
        user=user[order],
        item=item[order],
        label=label[order],
        probability=probability[order],
        sessions=len(length),
        lists=_lists(laws, session, order, _generator(lists)),
    )


def _generator(seed: SeedSequence) -> Generator:
    return Generator(PCG64(seed))


def _session_lengths(laws: Laws, generator: Generator) -> I64:
    """Geometric lengths that sum to exactly `samples`; the last one is cut to fit."""
    enough = int(laws.samples / laws.session_samples * 1.5) + 100
    length = generator.geometric(1 / laws.session_samples, enough).astype(np.int64)
    while length.sum() < laws.samples:
        length = np.concatenate([length, generator.geometric(1 / laws.session_samples, enough)])
    end = np.cumsum(length)
    last = int(np.searchsorted(end, laws.samples))
    length = length[: last + 1].copy()
    length[last] -= end[last] - laws.samples
    return length


def _zipf_ids(laws: Laws, size: int, count: int, generator: Generator) -> I64:
    """Ids 1…size; which id has which rank is drawn once per size, so that no code can profit from ordered ids."""
    weight = np.arange(1, size + 1, dtype=np.float64) ** -laws.zipf
    rank = np.searchsorted(np.cumsum(weight / weight.sum()), generator.random(count), side="right")
    permuted = Generator(PCG64([laws.seed, size])).permutation(size) + 1
    return np.asarray(permuted[np.minimum(rank, size - 1)], dtype=np.int64)


def _times(laws: Laws, length: I64, user_of_session: I64, generator: Generator) -> I64:
    """Event times: each user's sessions follow each other, all users end at the same horizon or before."""
    total = int(length.sum())
    step = 1 + np.minimum(generator.exponential(laws.within_ms, total).astype(np.int64), laws.gap_ms - 2)
    first = np.cumsum(length) - length
    idle = laws.gap_ms + generator.exponential(laws.between_ms, len(length)).astype(np.int64)
    # A session starts `idle` after the end of the user's one before: lay all sessions of a user end to end.
    by_user = np.argsort(user_of_session, kind="stable")
    inside = np.cumsum(step)
    inside -= np.repeat(inside[first], length)
    lasts = np.maximum.reduceat(inside, first) + idle
    laid = np.cumsum(lasts[by_user])
    starts_user = np.flatnonzero(np.diff(user_of_session[by_user], prepend=-1))
    before_user = np.repeat(np.concatenate([[0], laid])[starts_user], np.diff([*starts_user, len(by_user)]))
    start_sorted = laid - before_user
    busy = np.repeat(np.maximum.reduceat(start_sorted, starts_user), np.diff([*starts_user, len(by_user)]))
    horizon = int(busy.max())
    slack = np.repeat(generator.random(len(starts_user)), np.diff([*starts_user, len(by_user)]))
    start = np.empty_like(start_sorted)
    start[by_user] = start_sorted - lasts[by_user] + (slack * (horizon - busy)).astype(np.int64)
    return np.asarray(LATEST_MS - horizon + np.repeat(start, length) + inside, dtype=np.int64)


def _probabilities(laws: Laws, user: I64, item: I64, generator: Generator) -> F64:
    user_bias = generator.normal(0, laws.bias_scale, laws.users + 1)
    item_bias = generator.normal(0, laws.bias_scale, laws.items + 1)
    user_vector = generator.normal(0, laws.factor_scale, (laws.users + 1, FACTORS))
    item_vector = generator.normal(0, laws.factor_scale, (laws.items + 1, FACTORS))
    interaction = np.einsum("bf,bf->b", user_vector[user], item_vector[item])
    logit = laws.base_logit + user_bias[user] + item_bias[item] + interaction
    return np.asarray(1 / (1 + np.exp(-logit)))


def _lists(laws: Laws, session: I64, order: I64, generator: Generator) -> dict[str, Lists]:
    opens = np.diff(session, prepend=-1) != 0
    lists = {}
    for group in laws.groups:
        drawn = opens | (generator.random(len(session)) >= group.duplication)
        row = (np.cumsum(drawn) - 1)[order]
        for feature in group.features:
            length = generator.integers(1, 2 * group.mean_length, int(drawn.sum()), endpoint=True)
            offsets = np.concatenate([[0], np.cumsum(length)])
            lists[feature] = Lists(_zipf_ids(laws, laws.items, int(offsets[-1]), generator), offsets, row)
    return lists


def _entropy(rate: float) -> float:
    return float(_entropies(np.array([rate]))[0])


def _entropies(rate: F64) -> F64:
    return np.asarray(-(rate * np.log(rate) + (1 - rate) * np.log(1 - rate)))
