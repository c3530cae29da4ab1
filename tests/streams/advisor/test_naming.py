"""Names for groups."""

from __future__ import annotations

from streams.advisor.naming import names_of


def test_one_feature_names_its_group_and_several_are_named_by_their_beginning() -> None:
    groups = [("user",), ("clicked_items", "clicked_times"), ("a", "b")]
    assert names_of(groups, {}) == ["user", "clicked", "a_group"]


def test_a_group_of_the_configuration_keeps_its_name_in_any_order() -> None:
    assert names_of([("a", "b"), ("c",)], {"mine": ("b", "a"), "alone": ("c",)}) == ["mine", "alone"]


def test_no_name_is_given_twice() -> None:
    assert names_of([("user",), ("user_a", "user_b")], {}) == ["user", "user_2"]
    assert names_of([("x", "y"), ("z",)], {"x_group": ("z",)}) == ["x_group_2", "x_group"]
