"""The schema of a stream of events: what is refused before any event is read."""

from __future__ import annotations

import pytest

from streams.errors import ConfigError
from streams.events.schema import (
    DenseFeature,
    EventSchema,
    FeatureGroup,
    History,
    Label,
    Roles,
    SparseFeature,
)

ROLES = Roles(event_id=("id",), user="user", item="item", time="at")
LABEL = Label(name="click", field="click")
ITEM = SparseFeature(name="item", field="item", table="items")
TAGS = SparseFeature(name="tags", field="tags", table="tags", list=True)
SEEN = History(name="seen", table="items")


def schema(**changes: object) -> EventSchema:
    given = {"labels": (LABEL,), "sparse": (ITEM, TAGS), "histories": (SEEN,)} | changes
    return EventSchema(roles=ROLES, **given)  # type: ignore[arg-type]


def group(name: str, *features: str) -> FeatureGroup:
    return FeatureGroup(name=name, features=features)


def test_features_that_no_group_names_are_groups_by_themselves() -> None:
    groups = schema(groups=(group("what", "item", "tags"),)).all_groups
    assert [(each.name, each.features) for each in groups] == [("what", ("item", "tags")), ("seen", ("seen",))]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sparse": (ITEM, ITEM)}, "sparse and histories: item is named twice"),
        ({"histories": (History(name="item", table="items"),)}, "sparse and histories: item is named twice"),
        ({"groups": (group("a", "item"), group("b", "item"))}, "groups: features: item is named twice"),
        ({"groups": (group("a", "item", "item"),)}, "groups: features: item is named twice"),
        ({"groups": (group("a", "item"), group("a", "tags"))}, "groups: a is named twice"),
        (
            {"groups": (group("seen", "item"),)},
            "seen names a group and a feature that is a group by itself",
        ),
        ({"labels": (LABEL, LABEL)}, "labels: click is named twice"),
        ({"dense": (DenseFeature(name="x", field="x"), DenseFeature(name="x", field="y"))}, "dense: x is named twice"),
        ({"groups": (group("a", "price"),)}, "groups: unknown feature price"),
    ],
)
def test_names_that_mean_two_things_or_nothing_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        schema(**changes)


def test_a_group_may_have_the_name_of_a_feature_that_is_in_a_group() -> None:
    assert [each.name for each in schema(groups=(group("item", "item", "tags"), group("tags", "seen"))).all_groups] == [
        "item",
        "tags",
    ]
