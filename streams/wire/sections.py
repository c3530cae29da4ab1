"""The columns of a message on their way into the body and out of it.

Owns their sequence: written one after the other, and taken in the same order. What they mean is `codec` and `groups`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.errors import WireError
from streams.wire.layout import Encoding, Kind, Section
from streams.wire.packing import Packed, SharedIds, unpack

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A section before it has a position."""

    kind: Kind
    array: Array
    packed: Packed
    name: str = ""
    columns: int = 1


class Sections:
    """The sections of a body, taken one after the other."""

    def __init__(self, sections: list[Section], body: npt.NDArray[np.uint8]) -> None:
        self._sections = sections
        self._body = body
        self._next = 0
        self._shared = SharedIds(np.empty(0, np.int64))

    def upcoming(self) -> Kind | None:
        """Kind of the next section; None at the end."""
        return self._sections[self._next].kind if self._next < len(self._sections) else None

    def take(self, kind: Kind) -> tuple[Section, Array]:
        """The next section and its column, which must be of this kind."""
        if self.upcoming() is not kind:
            found = self._sections[self._next] if self.upcoming() is not None else "the end"
            raise WireError(f"a section {kind.name.lower()} must come here, not {found}")
        section = self._sections[self._next]
        self._next += 1
        if section.encoding is Encoding.SHARED and kind is Kind.VALUES:
            return section, self._shared.take(section)
        return section, unpack(section, self._body[section.position : section.position + section.size])

    def share(self) -> None:
        """Takes the ids that later sections share, where there are any."""
        if self.upcoming() is not Kind.IDS:
            return
        section, ids = self.take(Kind.IDS)
        if ids.dtype != np.int64:
            raise WireError(f"{section} holds {ids.dtype}, not int64")
        self._shared = SharedIds(ids)

    def end(self) -> None:
        """Every shared id must have been taken."""
        if self._shared.left:
            raise WireError(f"{self._shared.left} shared ids belong to no feature")
