"""What a feature's ids become before they are looked up: descriptions of transforms, one after the other in a chain.

Owns the descriptions and what each one means for a single row. Running them, once per distinct row, is
`transforms_rows` for rows and `transforms_groups` for groups. As plain Python, for a row `ids` of integers:

    Filter(keep=K)          [i for i in ids if i in K]
    Filter(drop=K)          [i for i in ids if i not in K]
    Clip(low, high)         [min(max(i, low), high) for i in ids]
    Bucketize(boundaries)   [sum(b <= i for b in boundaries) for i in ids]
    Truncate(last)          ids[-last:]
    Missing(id)             ids or [id]
    Modulo(rows)            [i % rows for i in ids]
    Direct(rows)            [i if 0 <= i < rows - 1 else rows - 1 for i in ids]
    Hash(rows, seed)        [mix(i + seed) % rows for i in ids]

Weights go with their ids; the declared id of a missing row weighs 1. What a description cannot mean raises ValueError.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral
from typing import Final, get_args

from streams.ikjt.transforms_lists import Ascending

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Only ids of a list stay, or all but those: exactly one of the two is given."""

    keep: tuple[int, ...] | None = None
    drop: tuple[int, ...] | None = None
    listed: Ascending = field(init=False, repr=False, compare=False)
    """The same ids, ready to be looked up."""

    def __post_init__(self) -> None:
        if (self.keep is None) == (self.drop is None):
            raise ValueError("a filter needs either the ids to keep or those to drop")
        ids = self.keep if self.keep is not None else self.drop
        for identity in ids or ():
            _check_id("a filter's id", identity)
        object.__setattr__(self, "listed", Ascending.of(ids or ()))


@dataclass(frozen=True, slots=True)
class Clip:
    """Ids below `low` become `low`, ids above `high` become `high`."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_id("low", self.low)
        _check_id("high", self.high)
        if self.low > self.high:
            raise ValueError(f"low = {self.low} is above high = {self.high}; swap them")


@dataclass(frozen=True, slots=True)
class Bucketize:
    """The number of boundaries that a value has reached: 0 below the first, as many as there are from the last on."""

    boundaries: tuple[float, ...]
    """Ascending; a value that is equal to one has reached it."""
    whole: Ascending = field(init=False, repr=False, compare=False)
    """The least integers that reach each boundary: no float stands between ids and an exact comparison."""

    def __post_init__(self) -> None:
        if not self.boundaries:
            raise ValueError("there are no boundaries; give at least one")
        for boundary in self.boundaries:
            if not (math.isfinite(boundary) and _LEAST <= math.ceil(boundary) <= _MOST):
                raise ValueError(f"boundary {boundary} must be a number of 64 bits")
        if any(not low < high for low, high in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise ValueError("boundaries must ascend, each above the one before it")
        object.__setattr__(self, "whole", Ascending.of(math.ceil(b) for b in self.boundaries))


@dataclass(frozen=True, slots=True)
class Truncate:
    """Only the most recent ids of a row stay: its last ones."""

    last: int

    def __post_init__(self) -> None:
        _check_whole("last", self.last)
        if not 1 <= self.last <= _MOST:
            raise ValueError(f"last = {self.last} must be at least 1")


@dataclass(frozen=True, slots=True)
class Missing:
    """A row without ids becomes the declared one."""

    id: int

    def __post_init__(self) -> None:
        _check_id("the declared id", self.id)


@dataclass(frozen=True, slots=True)
class Modulo:
    """The remainder, never negative: rows 0 to `rows` - 1 of a table."""

    rows: int

    def __post_init__(self) -> None:
        _check_rows(self.rows, 1)


@dataclass(frozen=True, slots=True)
class Direct:
    """The id is the row. The last row is declared for all ids that have none."""

    rows: int

    def __post_init__(self) -> None:
        _check_rows(self.rows, 2)


@dataclass(frozen=True, slots=True)
class Hash:
    """splitmix64 of (id + seed), modulo `rows`, all in unsigned 64-bit arithmetic.

    As plain Python:

        x = (id + seed + 0x9E3779B97F4A7C15) % 2**64
        x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ x >> 27) * 0x94D049BB133111EB) % 2**64
        row = (x ^ x >> 31) % rows

    The mapping is part of every checkpoint: a change here orphans all trained rows.
    """

    rows: int
    seed: int
    """0 to 2**64 - 1; another one for each table, so that equal ids fall on unrelated rows."""

    def __post_init__(self) -> None:
        _check_rows(self.rows, 1)
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed = {self.seed} must lie in 0..2**64 - 1")


Elementwise = Clip | Bucketize | Modulo | Direct | Hash
"""What looks at one id at a time, and gives one for it."""
Transform = Filter | Truncate | Missing | Elementwise


def check_chain(name: str, chain: object) -> None:
    """Raise TypeError unless this is a list of transforms."""
    if not isinstance(chain, list | tuple):
        raise TypeError(f"{name}: needs a list of transforms, not {chain!r}; put it into one")
    for step in chain:
        if not isinstance(step, Transform):
            names = ", ".join(each.__name__ for each in get_args(Transform))
            raise TypeError(f"{name}: {step!r} is no transform; there are {names}")


def _check_id(name: str, identity: int) -> None:
    _check_whole(name, identity)
    if not _LEAST <= identity <= _MOST:
        raise ValueError(f"{name} = {identity} must be an integer of 64 bits")


def _check_rows(rows: int, least: int) -> None:
    _check_whole("rows", rows)
    if not least <= rows <= _MOST:
        raise ValueError(f"rows = {rows} must be at least {least}")


def _check_whole(name: str, value: object) -> None:
    """An id or a count is never a float that happens to be near one, nor the string that an id was made of."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole:
        raise ValueError(f"{name} = {value!r} must be an integer")
