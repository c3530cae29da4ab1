"""Which features change together.

Owns the search. Two sets of features become one group if both hold:

- They change at the same samples: of the samples at which any of them changes, all of them change at nearly all.
  Then d of the group is that of each member, and the group costs no factor.
- It is measured to cost nothing: within the sessions of real batches, the group holds at most 3 % more values than
  its parts (each in its better form), and no more bytes. This keeps a history, which shifts, apart from lists of
  other lengths that change when it does.

Pairs that change most together are tried first. What repeats between sessions does not count: rows of one id that
many users share are found by any deduplication of ids, grouped or not. Never decides by names.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from streams.advisor.hold import Formed
from streams.advisor.measure import Left, Unit, exact, windows
from streams.advisor.neighbours import Bools, Neighbours
from streams.advisor.sample import Sample

TOGETHER: Final = 0.95
"""Of the changes of any: how many must be changes of all."""
MORE_VALUES: Final = 1.03
PARTIAL_PAYS: Final = 0.8
"""The partial form is worth its trouble where it leaves at most so much of the exact one's values."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Candidate:
    """Features as one group, measured in batches of whole sessions."""

    features: tuple[str, ...]
    unit: Unit
    batch: Left
    """Rows compared within whole batches: what an IKJT holds."""
    session: Left
    """Rows compared within sessions only: what the formula speaks of."""
    partial_values: int | None
    """Within sessions; None where there is no partial form: rows of one id, or of different lengths."""
    any_changed: Bools
    """[P]."""
    all_changed: Bools
    """[P]."""

    @property
    def is_partial(self) -> bool:
        """Whether windows are the better form."""
        return self.partial_values is not None and self.partial_values <= PARTIAL_PAYS * self.session.values_after

    @property
    def values(self) -> int:
        """In the better form, within sessions."""
        partial = self.partial_values
        return partial if self.is_partial and partial is not None else self.session.values_after

    @property
    def num_bytes(self) -> int:
        """In the better form, within sessions."""
        return self.session.bytes_with(self.values)


class Search:
    """One sample's search; measures a candidate once."""

    def __init__(self, sample: Sample, neighbours: Neighbours, sessions: Formed) -> None:
        self._sample = sample
        self._neighbours = neighbours
        self._sessions = sessions
        self._known: dict[tuple[str, ...], Candidate] = {}

    def candidate(self, features: tuple[str, ...]) -> Candidate:
        """These features as one group."""
        if features not in self._known:
            changed = [self._neighbours.changed(self._sample, feature) for feature in features]
            unit = Unit.of(self._sample, features[0])
            for feature in features[1:]:
                unit = unit.with_(Unit.of(self._sample, feature))
            self._known[features] = self._measured(
                features, unit, np.logical_or.reduce(changed), np.logical_and.reduce(changed)
            )
        return self._known[features]

    def merged(self, one: Candidate, other: Candidate) -> Candidate:
        """Both as one group, in the order of the sample's columns."""
        features = tuple(name for name in self._sample.columns if name in one.features + other.features)
        if features not in self._known:
            unit = one.unit.with_(other.unit)
            any_changed, all_changed = one.any_changed | other.any_changed, one.all_changed & other.all_changed
            self._known[features] = self._measured(features, unit, any_changed, all_changed)
        return self._known[features]

    def groups(self) -> list[Candidate]:
        """Every feature in one group; groups in the order of their first feature."""
        owner = {name: self.candidate((name,)) for name in self._sample.columns}
        pairs = {pair: change_together(owner[pair[0]], owner[pair[1]]) for pair in combinations(owner, 2)}
        refused: set[frozenset[tuple[str, ...]]] = set()
        for one, other in sorted(pairs, key=lambda pair: -pairs[pair]):
            left, right = owner[one], owner[other]
            both = frozenset((left.features, right.features))
            if pairs[one, other] < TOGETHER or left is right or both in refused:
                continue
            if change_together(left, right) >= TOGETHER and self._costs_nothing(left, right):
                owner |= dict.fromkeys(left.features + right.features, self.merged(left, right))
            else:
                refused.add(both)
        return list({group.features: group for group in owner.values()}.values())

    def _costs_nothing(self, left: Candidate, right: Candidate) -> bool:
        whole = self.merged(left, right)
        fits = (
            whole.values <= MORE_VALUES * (left.values + right.values)
            and whole.num_bytes <= left.num_bytes + right.num_bytes
        )
        if not fits:
            del self._known[whole.features]
        return fits

    def _measured(self, features: tuple[str, ...], unit: Unit, any_changed: Bools, all_changed: Bools) -> Candidate:
        session = exact(self._sessions, unit, within_sessions=True)
        has_lists = session.values_before > session.samples * session.features
        return Candidate(
            features=features,
            unit=unit,
            batch=exact(self._sessions, unit),
            session=session,
            partial_values=windows(self._sessions, unit) if has_lists and unit.even else None,
            any_changed=any_changed,
            all_changed=all_changed,
        )


def change_together(one: Candidate, other: Candidate) -> float:
    """Of the samples at which anything of either changes: at which everything of both does. 1 if nothing ever does."""
    anything = np.count_nonzero(one.any_changed | other.any_changed)
    return float(np.count_nonzero(one.all_changed & other.all_changed) / anything) if anything else 1.0
