"""Profiles as bytes: what goes in comes out, the bytes stay what they are, and damage is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.profiles import Profiles, decode, encode, histories_fingerprint
from state.store import MISSING
from streams.errors import InvariantError
from streams.events.schema import History

LONG = st.integers(-(2**63), 2**63 - 1)
SEEN = History(name="seen", table="items", last=3)


@st.composite
def profiles(draw: st.DrawFn) -> Profiles:
    num_users, num_histories = draw(st.integers(0, 4)), draw(st.integers(1, 3))
    shape = (num_users, num_histories)
    size = num_users * num_histories
    lengths = np.array(draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)), np.int64).reshape(shape)
    num_entries = int(lengths.sum())
    column = st.lists(LONG, min_size=num_entries, max_size=num_entries)
    more = draw(st.integers(0, 2**40))
    return Profiles(
        user=np.arange(num_users) - 1,
        total_UH=np.where(lengths > 0, lengths + more, 0),
        visible_UH=np.where(lengths > 0, lengths - 1 + more // 2, 0),
        lengths_UH=lengths,
        item=np.array(draw(column), np.int64),
        time_ms=np.array(draw(column), np.int64),
        offset=np.array(draw(column), np.int64),
    )


def columns_of(found: Profiles) -> list[list[object]]:
    return [getattr(found, name).tolist() for name in Profiles.__dataclass_fields__]


ONE = Profiles(
    user=np.array([7]),
    total_UH=np.array([[300]]),
    visible_UH=np.array([[299]]),
    lengths_UH=np.array([[2]]),
    item=np.array([100, -1]),
    time_ms=np.array([1_000, 1_001]),
    offset=np.array([5, 4]),
)


@given(profiles())
def test_profiles_come_back_as_they_were(some: Profiles) -> None:
    values = encode(some, 5, 0)
    assert columns_of(decode(some.user, values, 5, some.total_UH.shape[1])) == columns_of(some)


def test_the_bytes_of_a_profile_are_those_of_the_page() -> None:
    (value,) = encode(ONE, 0x01020304, 6)
    assert value.hex(" ") == "01 01 04 03 02 01 06 00 00 00 ac 02 01 02 c8 01 d0 0f 0a 01 02 01"


def test_a_missing_profile_and_one_of_other_histories_are_empty() -> None:
    found = decode(np.array([7, 8]), [encode(ONE, 1, 0)[0], MISSING], 2, 1)
    assert found.empty.tolist() == [True, True]
    assert found.lengths_UH.tolist() == [[0], [0]]


def test_a_profile_of_a_later_version_is_refused_as_such() -> None:
    with pytest.raises(InvariantError, match="user 7 has version 9, this recd reads 1"):
        decode(np.array([7]), [b"\x09" + encode(ONE, 1, 0)[0][1:]], 1, 1)


@given(st.data())
def test_damage_is_told_or_gives_other_values_of_the_same_size(data: st.DataObject) -> None:
    (value,) = encode(ONE, 1, 0)
    body = bytearray(value)
    for at in data.draw(st.lists(st.integers(1, len(body) - 1), min_size=1, max_size=3)):
        body[at] = data.draw(st.integers(0, 255))
    damaged = bytes(body[: data.draw(st.sampled_from([len(body), *range(1, len(body))]))])
    try:
        found = decode(np.array([6, 7]), [MISSING, damaged], 1, 1)
    except InvariantError as error:
        assert "user 7" in str(error)  # noqa: PT017  either outcome is right
    else:
        assert len(found.item) == found.lengths_UH.sum() <= len(damaged) // 3


def test_the_fingerprint_follows_what_entries_are_kept_for() -> None:
    others = [History(name="seen", table="items", last=4), History(name="liked", table="items", last=3, label="liked")]
    prints = {histories_fingerprint([history]) for history in (SEEN, *others)}
    assert len(prints) == 3
    assert histories_fingerprint([History(name="seen", table="others", last=3)]) in prints
