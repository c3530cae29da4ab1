"""The schema of a stream of events: what is refused before any event is read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace

import pytest

from streams.errors import ConfigError
from streams.events.roles import Roles
from streams.events.schema import DenseFeature, EventSchema, FeatureGroup, History, Label, SparseFeature

ROLES = Roles(event_id=("id",), user="user", item="item", time="at")
LABEL = Label(name="click", field="click")
ITEM = SparseFeature(name="item", field="item", table="items")
TAGS = SparseFeature(name="tags", field="tags", table="tags", list=True)
SEEN = History(name="seen", table="items")
SEEN_OF_BEFORE = {"name": "seen", "table": "items", "last": 50, "label": None}
"""Its fields when a history had no count and no recency."""
AGE, PRICE, MOOD = (DenseFeature(name=name, field=name) for name in ("age", "price", "mood"))


def schema(**changes: object) -> EventSchema:
    given = {"labels": (LABEL,), "sparse": (ITEM, TAGS), "histories": (SEEN,)} | changes
    return EventSchema(roles=ROLES, **given)  # type: ignore[arg-type]


def group(name: str, *features: str, dense: tuple[str, ...] = ()) -> FeatureGroup:
    return FeatureGroup(name=name, features=features, dense=dense)


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
        (
            {"dense": (DenseFeature(name="x", field="x"), DenseFeature(name="x", field="y"))},
            "dense, count and recency: x is named twice",
        ),
        (
            {"dense": (AGE,), "histories": (History(name="seen", table="items", recency="age"),)},
            "dense, count and recency: age is named twice",
        ),
        ({"groups": (group("a", "price"),)}, r"groups\.a: features: unknown feature price"),
    ],
)
def test_names_that_mean_two_things_or_nothing_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        schema(**changes)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            (group("a", "item", dense=("height",)),),
            r"groups\.a: dense: unknown dense feature height; known: \['age', 'price', 'mood', 'city'\]",
        ),
        ((group("a", "item", dense=("tags",)),), r"groups\.a: dense: unknown .* tags; put tags into its `features`"),
        ((group("a", "item", "age"),), r"groups\.a: features: unknown feature age; put age into its `dense`"),
        ((group("a", "item", dense=("age", "age")),), "groups: dense: age is named twice"),
        ((group("a", "item", dense=("age",)), group("b", "tags", dense=("age",))), "groups: dense: age is named twice"),
        ((group("a", "item", dense=("city",)),), r"groups\.a: dense: city is a feature's name too.*rename one"),
    ],
)
def test_dense_features_of_a_group_that_cannot_be_are_refused(groups: tuple[FeatureGroup, ...], message: str) -> None:
    city = SparseFeature(name="city", field="city", table="cities")
    with pytest.raises(ConfigError, match=message):
        schema(
            sparse=(ITEM, TAGS, city), dense=(AGE, PRICE, MOOD, DenseFeature(name="city", field="pop")), groups=groups
        )


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_column_of_a_group_needs_a_name_that_can_be_written(name: str) -> None:
    with pytest.raises(ConfigError, match=r"groups\.a: dense: .* cannot be the name of a column"):
        schema(dense=(DenseFeature(name=name, field="x"),), groups=(group("a", "item", dense=(name,)),))


def test_a_group_without_sparse_features_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"groups\.a: features is empty; name a sparse feature"):
        schema(dense=(AGE,), groups=(group("a", dense=("age",)),))


def test_dense_features_that_no_group_names_stay_with_the_samples_in_their_order() -> None:
    some = schema(dense=(AGE, PRICE, MOOD), groups=(group("a", "item", dense=("price",)),))
    assert (some.dense_names, some.ungrouped_dense) == (["age", "price", "mood"], ["age", "mood"])
    assert schema(dense=(AGE, PRICE)).ungrouped_dense == ["age", "price"]


def test_the_fingerprint_changes_with_the_dense_features_of_groups_and_is_what_it_was_without_any() -> None:
    dense = (AGE, PRICE)
    groupings = [(), ("age",), ("price",), ("age", "price"), ("price", "age")]
    found = [schema(dense=dense, groups=(group("a", "item", dense=names),)).fingerprint() for names in groupings]
    assert len(set(found)) == len(groupings)
    # What was stored before groups could hold dense features names the schema by these fields.
    fields = asdict(schema(dense=dense, groups=(group("a", "item"),)))
    fields |= {"groups": [{"name": "a", "features": ("item",)}], "histories": [SEEN_OF_BEFORE]}
    del fields["outcomes"]
    text = json.dumps(fields, sort_keys=True)
    assert found[0] == int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def test_a_group_may_have_the_name_of_a_feature_that_is_in_a_group() -> None:
    assert [each.name for each in schema(groups=(group("item", "item", "tags"), group("tags", "seen"))).all_groups] == [
        "item",
        "tags",
    ]


MEASURED = History(name="seen", table="items", count="num_seen", recency="since_seen")


def test_count_and_recency_of_histories_are_dense_features_behind_those_of_the_event() -> None:
    only = History(name="more", table="items", recency="since_more")
    some = schema(dense=(AGE,), histories=(MEASURED, only), groups=(group("a", "seen", dense=("num_seen",)),))
    assert some.dense_names == ["age", "num_seen", "since_seen", "since_more"]
    assert some.ungrouped_dense == ["age", "since_seen", "since_more"]


def test_a_measure_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"histories\.seen: count and recency are names.*leave the key out"):
        History(name="seen", table="items", count="")


def test_the_fingerprint_changes_with_count_and_recency_and_is_what_it_was_without() -> None:
    histories = [SEEN, replace(MEASURED, recency=None), replace(MEASURED, count=None), MEASURED]
    found = [schema(histories=(history,)).fingerprint() for history in histories]
    assert len(set(found)) == len(histories)
    fields = asdict(schema())
    fields["histories"] = [SEEN_OF_BEFORE]
    del fields["outcomes"]
    text = json.dumps(fields, sort_keys=True)
    assert found[0] == int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
