"""The controller of shedding: up in steps, down in steps, and neither too often nor at every checkpoint."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessionizer.shed_steps import MOST, STEP, ShedSteps
from streams.clock_mark import WHOLE

HIGH, STEP_MS = 1_000, 10


def shares(waiting: list[int], *, begin: int = 0, every_ms: int = STEP_MS) -> list[int]:
    """The share after each look, in eighths."""
    steps, share, found = ShedSteps(HIGH, STEP_MS), begin * STEP, list[int]()
    for turn, num_bytes in enumerate(waiting):
        share = steps.share(share, num_bytes, turn * every_ms)
        found.append(share * 8 // WHOLE)
    return found


def test_the_first_step_comes_at_once_and_the_last_leaves_an_eighth() -> None:
    assert shares([HIGH - 1, HIGH]) == [0, 1]
    assert shares([HIGH] * 9) == [1, 2, 3, 4, 5, 6, 7, 7, 7]


def test_it_falls_below_half_only_and_stays_in_between() -> None:
    assert shares([HIGH - 1, HIGH // 2, HIGH // 2 - 1, 0, 0, 0], begin=3) == [3, 3, 2, 1, 0, 0]


def test_two_changes_are_a_step_apart_in_either_direction() -> None:
    assert shares([HIGH] * 8, every_ms=STEP_MS // 4) == [1, 1, 1, 1, 1, 2, 2, 2]
    assert shares([HIGH, 0, HIGH, 0, HIGH, 0, 0], every_ms=STEP_MS // 2) == [1, 1, 2, 2, 3, 3, 2]


def test_a_share_that_it_did_not_choose_itself_is_gone_on_from() -> None:
    steps = ShedSteps(HIGH, STEP_MS)
    assert steps.share(WHOLE, HIGH, 0) == WHOLE
    assert steps.share(WHOLE, 0, 0) == MOST
    assert ShedSteps(HIGH, STEP_MS).share(5, 0, 0) == 0


@given(st.lists(st.tuples(st.integers(0, 2 * HIGH), st.integers(0, 3 * STEP_MS)), max_size=40))
def test_it_moves_an_eighth_at_a_time_towards_the_side_that_what_waits_is_on(turns: list[tuple[int, int]]) -> None:
    steps, share, now_ms, changed_ms = ShedSteps(HIGH, STEP_MS), 0, 0, -STEP_MS
    for num_bytes, pause_ms in turns:
        now_ms += pause_ms
        before, share = share, steps.share(share, num_bytes, now_ms)
        assert 0 <= share <= MOST
        if share == before:
            continue
        assert abs(share - before) == STEP
        assert (share > before) == (num_bytes >= HIGH)
        assert now_ms - changed_ms >= STEP_MS
        changed_ms = now_ms
