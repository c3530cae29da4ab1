"""Which of the user's fields plays which role.

Owns the frozen configuration of roles and what of it contradicts itself. Never reads a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from streams.errors import ConfigError
from streams.strict import STRICT

TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
KindName = Literal["impression", "outcome", "labelled"]
JoinKey = Literal["impression", "user_item"]

_YEAR_2015_MS: Final = 1_420_070_400_000
_FIVE_MINUTES_MS: Final = 300_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Roles:
    """Which of the user's fields plays which role. Dots reach into nested objects (`ctx.user.id`)."""

    __pydantic_config__: ClassVar = STRICT

    event_id: tuple[str, ...]
    """Field that identifies an event; several fields are joined into one identity."""
    user: str
    """Field with the user: the key of the topic and of every session."""
    item: str
    """Field with the item that was shown or acted on."""
    time: str
    """Field with the event time."""
    time_unit: TimeUnit = "ms"
    """Unit of the event time: s, ms, us, ns, or iso for a string (without a zone it means UTC)."""
    kind: str | None = None
    """Field with the kind of event; without it every message is of `default_kind`."""
    kinds: Mapping[str, KindName] = field(default_factory=dict)
    """Values of the kind field and what each one means; any other value is dead-lettered."""
    default_kind: KindName = "labelled"
    """Kind of every message when there is no kind field."""
    impression: str | None = None
    """Field by which an outcome refers to its impression's event id."""
    join: JoinKey = "impression"
    """impression: an outcome belongs to the impression that it names. user_item: it names none, and belongs to the
    latest impression of its user and item."""
    earliest_ms: int = _YEAR_2015_MS
    """Event times before this are dead-lettered: most often a wrong unit. Inclusive."""
    max_future_ms: int = _FIVE_MINUTES_MS
    """Event times later than the moment of appending by more than this are dead-lettered. At most session.lateness_ms,
    or one clock that runs ahead makes others late who are in time: the latest event decides what is late."""

    def __post_init__(self) -> None:
        if not self.event_id:
            raise ConfigError("event.event_id names no field; give one, or several that identify an event together")
        if self.kind is None and self.kinds:
            raise ConfigError("event.kinds is set but event.kind names no field; set event.kind")
        if self.max_future_ms < 0:
            raise ConfigError("event.max_future_ms must not be negative")
        if self.has_outcomes and self.impression is None and self.join == "impression":
            raise ConfigError(
                "event.impression names no field, but there are outcomes; name the one by which they refer to theirs, "
                'or set event.join = "user_item"'
            )
        if self.impression is not None and self.join == "user_item":
            raise ConfigError('event.impression is set, but event.join = "user_item" does not read it; remove one')
        if self.impression is not None and len(self.event_id) > 1:
            raise ConfigError("event.impression is one field, so event.event_id must be one too; join them upstream")

    @property
    def has_outcomes(self) -> bool:
        """Whether outcomes come in messages of their own."""
        return "outcome" in (self.kinds.values() if self.kind is not None else [self.default_kind])
