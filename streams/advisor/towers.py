"""What is left of the gain where a model mixes groups.

Owns the figure: a tower over several groups runs once for each distinct tuple of their rows, so it gains what is
jointly unchanged, which is less than any of them. Groups are added one by one, the most constant first, to show how
far a tower may reach: the widest tower is kept of each level of the gain. Towers of one's own choice are measured
beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from streams.advisor.advice import Tower
from streams.advisor.grouping import Candidate
from streams.advisor.hold import Formed
from streams.advisor.measure import distinct, together
from streams.advisor.neighbours import Bools, factor_of
from streams.advisor.sample import I32
from streams.errors import ConfigError

REPEATS: Final = 0.1
"""d from which a group is taken into a tower of what repeats."""
_LEVEL: Final = 0.95
"""A tower that keeps so much of the gain of the one before takes its place."""


def widening(groups: Mapping[str, Candidate], formed: Formed) -> list[Tower]:
    """Towers over the most constant groups, two or more, up to all that repeat."""
    repeating = {name: group for name, group in groups.items() if 1 - _share(group.any_changed) >= REPEATS}
    ranked = sorted(repeating, key=lambda name: _share(repeating[name].any_changed))
    towers: list[Tower] = []
    mixed = _Mixed(len(formed.order))
    for number, name in enumerate(ranked, 1):
        mixed.add(groups[name])
        tower = mixed.tower(tuple(ranked[:number]), formed)
        if towers and tower.measured >= _LEVEL * towers[-1].measured:
            towers.pop()
        towers.append(tower)
    return [tower for tower in towers if len(tower.groups) > 1]


def chosen(groups: Mapping[str, Candidate], features: Sequence[str], formed: Formed) -> Tower:
    """The tower over these features: over the groups that hold them."""
    owner = {feature: name for name, group in groups.items() for feature in group.features}
    unknown = [feature for feature in features if feature not in owner]
    if unknown:
        raise ConfigError(f"--tower names {unknown[0]}, which is no feature; known: {', '.join(owner)}")
    names = tuple(dict.fromkeys(owner[feature] for feature in features))
    mixed = _Mixed(len(formed.order))
    for name in names:
        mixed.add(groups[name])
    return mixed.tower(names, formed)


class _Mixed:
    """Distinct tuples of the groups so far."""

    def __init__(self, num_samples: int) -> None:
        self._index: I32 = np.zeros(num_samples, np.int32)
        self._changed: Bools | None = None
        self._num_rows = 1
        self._num_features = 0

    def add(self, group: Candidate) -> None:
        first, self._index = together([self._index, group.unit.index])
        self._num_rows = len(first)
        self._num_features += len(group.features)
        self._changed = group.any_changed if self._changed is None else self._changed | group.any_changed

    def tower(self, names: tuple[str, ...], formed: Formed) -> Tower:
        assert self._changed is not None, "a tower has groups"
        unchanged = 1 - _share(self._changed)
        return Tower(
            groups=names,
            num_features=self._num_features,
            unchanged=unchanged,
            predicted=factor_of(formed.samples_per_session, unchanged),
            measured=len(self._index) / max(1, distinct(formed, self._index, self._num_rows)),
        )


def _share(changed: Bools) -> float:
    return float(changed.mean()) if len(changed) else 0.0
