"""Ids never change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import PoisonError
from streams.events.ids import NO_ID, Scalar, event_id, feature_id, hash_id, text_of, user_id, user_of_key


def test_the_hash_of_a_string_is_the_same_in_every_version() -> None:
    # Stored in embedding tables and profiles: if this fails, every model is lost.
    assert hash_id("anna") == 6806125601362424889
    assert hash_id("42") == 1303733993043075473


@given(st.integers(NO_ID + 1, (1 << 63) - 1))
def test_an_integer_is_its_own_id_and_its_text_the_same_user(number: int) -> None:
    assert feature_id(number) == number
    assert user_id(number) == user_id(str(number)) == user_of_key(str(number).encode()) == number


@given(st.one_of(st.text(min_size=1), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)))
def test_a_user_is_what_its_key_says(value: Scalar) -> None:
    assert user_id(value) == user_of_key(text_of(value).encode())


@pytest.mark.parametrize("text", ["007", "+1", "-0", " 1", "١", "1.0", "9223372036854775808", "-9223372036854775808"])
def test_text_that_only_resembles_an_integer_is_hashed(text: str) -> None:
    assert user_id(text) == hash_id(text)


PARTS = st.lists(st.text(max_size=3), min_size=2, max_size=2).filter(any)


@given(PARTS, PARTS)
def test_different_parts_make_different_event_ids(left: list[str], right: list[str]) -> None:
    assert (event_id(left) == event_id(right)) == (left == right)


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), 1 << 63, NO_ID, None])
def test_what_is_no_integer_of_64_bits_is_no_id(value: float | None) -> None:
    with pytest.raises(PoisonError):
        feature_id(value)


def test_an_event_id_of_nothing_but_empty_texts_is_missing_and_makes_no_duplicates() -> None:
    for parts in ([""], ["", ""]):
        with pytest.raises(PoisonError, match="the event id is empty"):
            event_id(parts)
    assert event_id(["", "a"]) != event_id(["a", ""])
    assert event_id([0]) == 0
