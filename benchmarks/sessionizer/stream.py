"""Impressions and clicks as JSON messages in order of time, and the label that each impression must get.

Owns the law of the stream. `active` users are in a session at any time, one impression each in turn, `step_ms` apart;
so a session of `length` impressions lasts `length * active * step_ms`. Its user returns when all the others had theirs.
A share of the impressions is clicked, up to a minute later, by a message of its own. Everything is a function of the
event's number and the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

START_MS: Final = 1_735_689_600_000
CLICKED: Final = 0.25
LATEST_CLICK_MS: Final = 60_000
FIRST_VIEW: Final = 100_000_000
FIRST_CLICK: Final = 500_000_000
FIRST_USER: Final = 1_000_000
LISTS: Final = ("liked", "seen", "bought")
LIST_LENGTHS: Final = (50, 101)
ITEMS: Final = 1_000_000
_BLOCK: Final = 1 << 16
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """How a stream is drawn."""

    active: int = 1_000
    """Users in a session at any time."""
    length: int = 16
    """Impressions of a session."""
    step_ms: int = 30
    """Between neighbouring impressions of the stream."""
    users: int = 20_000
    """After so many sessions the first user returns."""
    lists: bool = False
    """Whether an impression carries three lists of 50 to 100 ids, the same within a session."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """One event, as a producer sends it."""

    user: int
    time_ms: int
    value: bytes


def messages(law: Law, num_views: int) -> Iterator[Message]:
    """The stream of that many impressions and their clicks."""
    waiting: list[tuple[int, int, Message]] = []
    for start in range(0, num_views, _BLOCK):
        view = np.arange(start, min(num_views, start + _BLOCK))
        waiting += _views(law, view)
        waiting += _clicks(law, view)
        waiting.sort(key=lambda one: one[:2])
        # No later block has anything before its own first impression.
        until_ms = START_MS + (start + len(view)) * law.step_ms
        done = sum(one[0] < until_ms for one in waiting)
        yield from (one[2] for one in waiting[:done])
        del waiting[:done]
    yield from (one[2] for one in waiting)


def sessions_of(law: Law, view: I64) -> I64:
    """[N] the session of each impression."""
    slot = view % law.active
    # Sessions do not begin in step: each slot has its own phase.
    turn = view // law.active + slot * law.length // law.active
    return slot + law.active * (turn // law.length)


def clicked(law: Law, view: I64) -> npt.NDArray[np.bool_]:
    """[N] whether an impression is clicked: the label it must get."""
    return np.asarray(_drawn(law, view, 1) % 1_000 < CLICKED * 1_000)


def _views(law: Law, view: I64) -> list[tuple[int, int, Message]]:
    session = sessions_of(law, view)
    times, users = _times(law, view), FIRST_USER + session % law.users
    drawn = [(_drawn(law, view, 2 + k) % most).tolist() for k, most in enumerate((ITEMS, 900, 9_000, 400, 10, 90, 24))]
    lists = [_lists(law, one) for one in session.tolist()] if law.lists else [""] * len(view)
    return [
        (
            at,
            FIRST_VIEW + v,
            Message(
                user,
                at,
                (
                    f'{{"type":"view","id":{FIRST_VIEW + v},"user":{user},"at":{at},"item":{item},'
                    f'"category":{category},"shop":{shop},"city":{city},"device":{device},"page":{page},"hour":{hour},'
                    f'"price":{item % 997}.5{more}}}'
                ).encode(),
            ),
        )
        for v, user, at, item, category, shop, city, device, page, hour, more in zip(
            view.tolist(), users.tolist(), times.tolist(), *drawn, lists, strict=True
        )
    ]


def _clicks(law: Law, view: I64) -> list[tuple[int, int, Message]]:
    view = view[clicked(law, view)]
    users = FIRST_USER + sessions_of(law, view) % law.users
    times = _times(law, view) + 1 + _drawn(law, view, 20) % LATEST_CLICK_MS
    return [
        (
            at,
            FIRST_CLICK + v,
            Message(
                user,
                at,
                (
                    f'{{"type":"click","id":{FIRST_CLICK + v},"user":{user},"at":{at},"of":{FIRST_VIEW + v},'
                    f'"referrer":"home/recommended","device":{v % 10},"page":{v % 90}}}'
                ).encode(),
            ),
        )
        for v, user, at in zip(view.tolist(), users.tolist(), times.tolist(), strict=True)
    ]


def _times(law: Law, view: I64) -> I64:
    return START_MS + view * law.step_ms


@lru_cache(1 << 14)
def _lists(law: Law, session: int) -> str:
    generator = np.random.default_rng((law.seed, session))
    lengths = generator.integers(*LIST_LENGTHS, len(LISTS)).tolist()
    return "".join(
        f',"{name}":{generator.integers(ITEMS // 10, ITEMS, length).tolist()}'.replace(" ", "")
        for name, length in zip(LISTS, lengths, strict=True)
    )


def _drawn(law: Law, view: I64, column: int) -> I64:
    """[N] numbers from 0 on that look random; SplitMix64."""
    x = view.astype(np.uint64) * np.uint64(64) + np.uint64(column) + np.uint64(law.seed << 48)
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
