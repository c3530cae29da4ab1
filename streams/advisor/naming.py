"""Names for groups that were found.

Owns the rule: a group that the configuration has already keeps its name; one feature names its own group; several are
named by what their names begin with in common, else by the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

_SHORTEST: Final = 3


def names_of(groups: Sequence[tuple[str, ...]], known: Mapping[str, tuple[str, ...]]) -> list[str]:
    """One name a group, no two equal."""
    kept = {frozenset(features): name for name, features in known.items()}
    names: list[str] = []
    for features in groups:
        wanted = kept.get(frozenset(features)) or _name(features)
        number, name = 2, wanted
        while name in names or (name in kept.values() and kept.get(frozenset(features)) != name):
            name, number = f"{wanted}_{number}", number + 1
        names.append(name)
    return names


def _name(features: tuple[str, ...]) -> str:
    if len(features) == 1:
        return features[0]
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*features, strict=False))
    common = "".join(letters[0] for letters in alike).rstrip("_-. 0123456789")
    return common if len(common) >= _SHORTEST else f"{features[0]}_group"
