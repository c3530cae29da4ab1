"""What the user's messages mean: roles of fields, labels, features, histories and feature groups.

Owns the frozen configuration of an event stream and its fingerprint. Never reads a message.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import ClassVar, Literal

from streams.errors import ConfigError
from streams.events.roles import OutcomeRoles, Roles
from streams.strict import STRICT

LabelRule = Literal["ge", "gt", "eq", "in", "value"]
FormName = Literal["exact", "partial"]
CombineRule = Literal["any", "max", "last", "sum"]


class EventKind(IntEnum):
    """What one message is. Values are stored in state and on the wire: never renumber."""

    IMPRESSION = 1
    """What was shown, with the features as they were at that moment."""
    OUTCOME = 2
    """Something that happened to an impression; refers to it."""
    LABELLED = 3
    """Impression and outcome in one message, such as a rating."""
    TOMBSTONE = 4
    """Erase this user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """One binary task: a rule over a field of labelled events or outcomes."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    """Name of the task, as metrics show it."""
    field: str
    """Field that the rule reads; missing means 0."""
    rule: LabelRule = "value"
    """ge, gt, eq: compare with `threshold`; in: one of `values`; value: the field itself is 0 or 1."""
    threshold: float = 1.0
    """Number that ge, gt and eq compare with."""
    values: tuple[str, ...] = ()
    """Strings that count as positive for the rule `in`."""
    combine: CombineRule = "any"
    """How several outcomes of one impression become one label. any: positive if one of them is. last: as the latest
    one that says something. max, sum: of their numbers, before the rule (ge or gt) is applied."""

    def __post_init__(self) -> None:
        if self.combine in {"max", "sum"} and self.rule not in {"ge", "gt"}:
            raise ConfigError(
                f"labels.{self.name}: combine = {self.combine!r} needs a rule that compares sizes; set rule to 'ge' "
                "or 'gt', or combine to 'any' or 'last'"
            )
        if self.rule == "in" and not self.values:
            raise ConfigError(f"labels.{self.name}: rule 'in' needs `values`")


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseFeature:
    """Ids that the event carries: one id, or a list of them."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    """Name of the feature: its key in the IKJT."""
    field: str
    """Field of the event."""
    table: str
    """Embedding table that its ids are looked up in; several features may share one."""
    list: bool = False
    """True: the field is a list of ids. False: one id."""
    required: bool = True
    """False: a missing or null field is an empty row instead of a dead letter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseFeature:
    """One float of the event."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    """Name of the column."""
    field: str
    """Field of the event. Its values enter the network as they are: scale them upstream to about -1 to 1."""
    default: float | None = None
    """Value where the field is missing or null; without one the field is required."""


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """A sequence feature that recd builds: the user's last items before the sample.

    History at t holds entries with event time strictly before t, oldest first, so a sample never sees its
    own label or that of a sample of the same millisecond.
    """

    __pydantic_config__: ClassVar = STRICT

    name: str
    """Name of the feature: its key in the IKJT."""
    table: str
    """Embedding table of its ids: the item table, usually."""
    last: int = 50
    """How many entries are kept."""
    label: str | None = None
    """Only items whose event was positive for this label enter; without one every item does."""
    count: str | None = None
    """Name of a dense feature: ln(1 + how many entries a sample sees), `last` or not. Without a name there is none."""
    recency: str | None = None
    """Name of a dense feature: ln(1 + seconds from the newest entry that a sample sees to the sample); -1 where it
    sees none. Without a name there is none."""

    def __post_init__(self) -> None:
        if not 1 <= self.last <= 65_536:
            raise ConfigError(f"histories.{self.name}: last must lie in 1..65536")
        if "" in (self.count, self.recency):
            raise ConfigError(
                f"histories.{self.name}: count and recency are names of dense features; give one, or leave the key out"
            )

    @property
    def measures(self) -> list[str]:
        """Names of the dense features that recd makes of it, the count first."""
        return [name for name in (self.count, self.recency) if name is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureGroup:
    """Features that change together; rows are equal only if all of them are."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    """Name of the group, as metrics show it."""
    features: tuple[str, ...]
    """Its sparse features and histories: one at least."""
    dense: tuple[str, ...] = ()
    """Dense features that change with them, such as the age of the user: kept once a row, which is equal to another
    only if they are too. One that no group names is kept for every sample. What is trained is the same."""
    form: FormName = "exact"
    """exact: every distinct row is stored. partial: rows that are windows of one list of the session, such as a
    history that shifts by one, are stored as start and length, if all features of the group have equal lengths.
    What is trained is the same."""

    def __post_init__(self) -> None:
        if not self.features:
            raise ConfigError(
                f"groups.{self.name}: features is empty; name a sparse feature or history that changes with the group, "
                "or remove the group: dense features that are in none are kept for every sample"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSchema:
    """Everything about the meaning of a stream of events."""

    __pydantic_config__: ClassVar = STRICT

    roles: Roles
    labels: tuple[Label, ...]
    sparse: tuple[SparseFeature, ...] = ()
    dense: tuple[DenseFeature, ...] = ()
    histories: tuple[History, ...] = ()
    groups: tuple[FeatureGroup, ...] = ()
    """Features that no group names form a group of their own, under their own name."""
    outcomes: OutcomeRoles | None = None
    """What is otherwise in the outcomes' own topic; without, its messages are called as the interactions are."""

    def __post_init__(self) -> None:
        if not self.labels:
            raise ConfigError("labels: at least one [[labels]] is needed; it says what the model predicts")
        for what, names in {
            "labels": [label.name for label in self.labels],
            "dense, count and recency": self.dense_names,
            "sparse and histories": self.feature_names,
            "groups": [group.name for group in self.groups],
            "groups: features": [name for group in self.groups for name in group.features],
            "groups: dense": [name for group in self.groups for name in group.dense],
        }.items():
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ConfigError(f"{what}: {', '.join(twice)} is named twice; names must be unique")
        alone = set(self.feature_names).difference(*(group.features for group in self.groups))
        clash = sorted(alone.intersection(group.name for group in self.groups))
        if clash:
            raise ConfigError(
                f"groups: {clash[0]} names a group and a feature that is a group by itself; rename the group"
            )
        for group in self.groups:
            self._check_members(group)
        for history in self.histories:
            if history.label is not None and history.label not in [label.name for label in self.labels]:
                raise ConfigError(f"histories.{history.name}: label {history.label!r} is not one of [[labels]]")
        if self.outcomes is not None:
            self._check_outcomes(self.outcomes)

    def _check_outcomes(self, outcomes: OutcomeRoles) -> None:
        known = [label.name for label in self.labels]
        if unknown := sorted(set(outcomes.labels) - set(known)):
            raise ConfigError(
                f"outcomes.labels.{unknown[0]}: there is no label {unknown[0]}; name one of [[labels]]: "
                f"{', '.join(known)}"
            )
        outcomes.over(self.roles)

    def _check_members(self, group: FeatureGroup) -> None:
        """Refuse names that are nothing, or not of the kind that the key holds."""
        sparse, dense = self.feature_names, self.dense_names
        for key, names, known, other, others in (
            ("features", group.features, sparse, "dense", dense),
            ("dense", group.dense, dense, "features", sparse),
        ):
            if unknown := sorted(set(names) - set(known)):
                misplaced = [name for name in unknown if name in others]
                hint = f"; put {misplaced[0]} into its `{other}`" if misplaced else ""
                raise ConfigError(
                    f"groups.{group.name}: {key}: unknown {'dense ' if key == 'dense' else ''}feature "
                    f"{', '.join(unknown)}{hint}; known: {known}"
                )
        for name in group.dense:
            if name in sparse:
                raise ConfigError(
                    f"groups.{group.name}: dense: {name} is a feature's name too, and records of the group could not "
                    "tell them apart; rename one"
                )
            if not name or "\0" in name:
                raise ConfigError(
                    f"groups.{group.name}: dense: {name!r} cannot be the name of a column; give it one without zero "
                    "characters"
                )

    @property
    def dense_names(self) -> list[str]:
        """Names of all dense features: the columns of what enters the network, in order.

        Those of the event first (`dense`), then those that are made of the histories.
        """
        made = [name for history in self.histories for name in history.measures]
        return [feature.name for feature in self.dense] + made

    @property
    def ungrouped_dense(self) -> list[str]:
        """Names of the dense features that no group holds: the columns of `MiniBatch.dense`, in order."""
        grouped = {name for group in self.groups for name in group.dense}
        return [name for name in self.dense_names if name not in grouped]

    @property
    def feature_names(self) -> list[str]:
        """Keys of all sparse features, then of all histories."""
        return [feature.name for feature in self.sparse] + [history.name for history in self.histories]

    @property
    def all_groups(self) -> tuple[FeatureGroup, ...]:
        """The declared groups in their order, then one group for each feature that none of them names."""
        grouped = {name for group in self.groups for name in group.features}
        alone = [name for name in self.feature_names if name not in grouped]
        return self.groups + tuple(FeatureGroup(name=name, features=(name,)) for name in alone)

    @property
    def table_of(self) -> dict[str, str]:
        """Feature name to embedding table name."""
        sparse = {feature.name: feature.table for feature in self.sparse}
        return sparse | {history.name: history.table for history in self.histories}

    def fingerprint(self) -> int:
        """64 bits that change whenever the meaning of the stream changes; how groups are stored is not part of it."""
        fields = asdict(self)
        for group in fields["groups"]:
            del group["form"]
            if not group["dense"]:
                del group["dense"]  # Schemas of before there were such columns keep their fingerprint.
        for history in fields["histories"]:
            for key in ("count", "recency"):
                if history[key] is None:
                    del history[key]
        if fields["outcomes"] is None:
            del fields["outcomes"]
        text = json.dumps(fields, sort_keys=True, default=list)
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
