"""Which of the user's fields plays which role, in each topic of events.

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
    section: ClassVar = "event"
    """Where the configuration says them: what is told of a wrong message names it."""

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
        if not all(self.event_id) or not self.event_id:
            raise ConfigError("event.event_id names no field; give one, or several that identify an event together")
        for role in ("user", "item", "time"):
            if not getattr(self, role):
                raise ConfigError(f"event.{role} names no field; give the one that holds the {role}")
        for role in ("kind", "impression"):
            if getattr(self, role) == "":
                raise ConfigError(f"event.{role} names no field; give one, or leave it out")
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


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRoles:
    """What is otherwise in `topics.outcomes` than in the interactions: a key that is not set is as in [event]."""

    __pydantic_config__: ClassVar = STRICT

    event_id: tuple[str, ...] | None = None
    """Field that identifies an outcome; several fields are joined into one identity, such as impression and time."""
    user: str | None = None
    """Field with the user: the key of this topic too."""
    item: str | None = None
    """Field with the item, which outcomes need only with event.join = "user_item"."""
    time: str | None = None
    """Field with the event time."""
    time_unit: TimeUnit | None = None
    """Unit of the event time: s, ms, us, ns, or iso for a string."""
    impression: str | None = None
    """Field by which an outcome refers to its impression's event id."""
    kind: str | None = None
    """Field with the kind of event; "" where this topic has none and [event] names one: every message is an outcome."""
    kinds: Mapping[str, KindName] = field(default_factory=dict)
    """Values of the kind field and what each one means, in place of all of event.kinds. What is no outcome is
    dead-lettered."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Label to the field that its rule reads here; one that is not named reads its own."""

    def __post_init__(self) -> None:
        if self.event_id == ():
            raise ConfigError(
                "outcomes.event_id names no field; give one, or several that identify an outcome together, or leave it "
                "out to take event.event_id"
            )
        names = {"user": self.user, "item": self.item, "time": self.time, "impression": self.impression}
        for key, name in (names | {f"labels.{label}": name for label, name in self.labels.items()}).items():
            if name == "":
                raise ConfigError(f"outcomes.{key} names no field; give one, or leave it out to take that of [event]")
        if self.kind == "" and self.kinds:
            raise ConfigError(
                'outcomes.kinds is set, but outcomes.kind = "" says that no field has the kind; remove one'
            )

    def over(self, roles: Roles) -> Roles:
        """All roles of the topic, where those of the interactions are `roles`. ConfigError where they contradict."""
        kind = roles.kind if self.kind is None else self.kind or None
        kinds = self._kinds(kind, roles)
        impression = self.impression or roles.impression
        event_id = self.event_id or roles.event_id
        if roles.join == "user_item" and self.impression is not None:
            raise ConfigError('outcomes.impression is set, but event.join = "user_item" does not read it; remove one')
        if roles.join == "impression" and impression is None:
            raise ConfigError(
                "outcomes.impression names no field, nor does event.impression; name the one by which outcomes refer "
                'to their impressions, or set event.join = "user_item"'
            )
        if impression is not None and len(roles.event_id) > 1:
            raise ConfigError("outcomes.impression is one field, so event.event_id must be one too; join them upstream")
        return _RolesOfTopic(
            event_id=event_id,
            user=self.user or roles.user,
            item=self.item or roles.item,
            time=self.time or roles.time,
            time_unit=self.time_unit or roles.time_unit,
            kind=kind,
            kinds=kinds,
            default_kind="outcome",
            impression=impression,
            join=roles.join,
            earliest_ms=roles.earliest_ms,
            max_future_ms=roles.max_future_ms,
        )

    def _kinds(self, kind: str | None, roles: Roles) -> Mapping[str, KindName]:
        """What the values of the kind field mean; one of them must mean an outcome."""
        if kind is None and self.kinds:
            raise ConfigError(
                "outcomes.kinds is set, but neither outcomes.kind nor event.kind names a field; set outcomes.kind"
            )
        kinds = {} if kind is None else self.kinds or roles.kinds
        if kind is not None and "outcome" not in kinds.values():
            raise ConfigError(
                f'field {kind} tells the kinds of topics.outcomes, but none of its values means "outcome"; name one in '
                "outcomes.kinds, or in event.kinds where both topics have the same"
            )
        return kinds


@dataclass(frozen=True, kw_only=True, slots=True)
class _RolesOfTopic(Roles):
    """Roles of a topic of outcomes alone, which `OutcomeRoles.over` has checked.

    An outcome refers to an impression by one field, but that field is the id of an event of the other topic: here ids
    may be of several.
    """

    section: ClassVar = "outcomes"

    def __post_init__(self) -> None:
        pass
