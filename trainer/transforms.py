"""The frozen configuration of what happens to a feature's ids before they are looked up.

Owns its keys and the order in which they act, and refuses what cannot work, naming the key. What each transform does
is `streams.ikjt.transforms`; the mapping into a table follows and is the table's own. Never runs anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar

from streams.errors import ConfigError
from streams.events.ids import hash_id
from streams.ikjt.transforms import Bucketize, Clip, Filter, Missing, Transform, Truncate
from streams.strict import STRICT


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureTransforms:
    """What happens to the ids of one feature before its table: filter, clip or bucketize, truncate, missing.

    In this order, in the trainer, once per distinct row. They are part of what a checkpoint's weights mean.
    """

    __pydantic_config__: ClassVar = STRICT

    keep_ids: tuple[int | str, ...] | None = None
    """Only these ids stay, written as events carry them: integers, or strings in quotes."""
    drop_ids: tuple[int | str, ...] | None = None
    """All ids but these stay."""
    clip: tuple[int, int] | None = None
    """Lowest and highest id: one below or above becomes that one."""
    bucketize: tuple[int | float, ...] | None = None
    """Ascending boundaries: an id becomes the number of boundaries that it has reached, 0 below the first."""
    truncate: int | None = None
    """Only the most recent ids of a row stay, this many. Attention never reads more than
    `model.attention.max_length` of them."""
    missing: int | None = None
    """A row that is empty, or that a filter left empty, becomes this one id; without one it reads as exactly 0."""

    def check(self, name: str) -> None:
        """Raise ConfigError that names the key under `name` that cannot work, and the fix."""
        for one, other in (("keep_ids", "drop_ids"), ("clip", "bucketize")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ConfigError(f"{name}.{one} and {name}.{other} are both set; set one of them")
        if self.keep_ids == ():
            raise ConfigError(f"{name}.keep_ids is empty, so no id would stay; name some, or remove the key")
        makers: Iterable[tuple[str, Callable[[], object]]] = (*self._makers(), ("missing", self.declared))
        for key, make in makers:
            try:
                make()
            except ValueError as error:
                raise ConfigError(f"{name}.{key}: {error}") from error

    def chain(self) -> tuple[Transform, ...]:
        """All of them in their order, without `missing`."""
        return _chain(self)

    def declared(self) -> tuple[Missing, ...]:
        """What a missing row becomes, if it is declared."""
        return () if self.missing is None else (Missing(self.missing),)

    def stated(self) -> dict[str, Any]:
        """The keys that are set, as plain values."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def _makers(self) -> Iterator[tuple[str, Callable[[], Transform]]]:
        """Key to what makes its transform, in order."""
        if (kept := self.keep_ids) is not None:
            yield "keep_ids", lambda: Filter(keep=_as_integers(kept))
        if (dropped := self.drop_ids) is not None:
            yield "drop_ids", lambda: Filter(drop=_as_integers(dropped))
        if (clip := self.clip) is not None:
            yield "clip", lambda: Clip(*clip)
        if (boundaries := self.bucketize) is not None:
            yield "bucketize", lambda: Bucketize(boundaries)
        if (last := self.truncate) is not None:
            yield "truncate", lambda: Truncate(last)


def _as_integers(ids: Sequence[int | str]) -> tuple[int, ...]:
    """As mini-batches carry them."""
    return tuple(hash_id(each) if isinstance(each, str) else each for each in ids)


@lru_cache(maxsize=1024)
def _chain(transforms: FeatureTransforms) -> tuple[Transform, ...]:
    """Made once and not at every step: a filter sorts its list."""
    return tuple(make() for _, make in transforms._makers())  # noqa: SLF001  (its own other half)
