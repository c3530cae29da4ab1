"""The synthetic log follows the laws it states."""

from __future__ import annotations

import numpy as np
import pytest

from infra.demo.synthetic import LATEST_MS, Laws, SyntheticLog, draw
from streams.errors import ConfigError

LAWS = Laws(samples=30_000, seed=3)


@pytest.fixture(scope="module")
def log() -> SyntheticLog:
    return draw(LAWS)


def sessions_of(log: SyntheticLog) -> int:
    """Sessions as an event-time gap finds them, user by user."""
    order = np.lexsort((log.time_ms, log.user))
    new_user = np.diff(log.user[order], prepend=-1) != 0
    apart = np.diff(log.time_ms[order], prepend=-(10**15)) >= LAWS.gap_ms
    return int((new_user | apart).sum())


def test_equal_laws_give_equal_logs_and_another_seed_another(log: SyntheticLog) -> None:
    again, other = draw(LAWS), draw(Laws(samples=30_000, seed=4))
    assert np.array_equal(again.time_ms, log.time_ms)
    assert np.array_equal(again.lists["watched"].values, log.lists["watched"].values)
    assert not np.array_equal(other.user, log.user)


def test_samples_are_in_event_time_order_and_in_the_past(log: SyntheticLog) -> None:
    assert len(log.time_ms) == LAWS.samples
    assert (np.diff(log.time_ms) >= 0).all()
    assert log.time_ms[0] > LATEST_MS - 10 * 365 * 86_400_000
    assert log.time_ms[-1] < LATEST_MS


def test_a_gap_finds_exactly_the_sessions_that_were_drawn(log: SyntheticLog) -> None:
    assert sessions_of(log) == log.sessions
    assert log.session_samples == pytest.approx(LAWS.session_samples, rel=0.05)


def test_users_follow_the_zipf_law_and_their_ids_are_not_their_ranks(log: SyntheticLog) -> None:
    ids, counts = np.unique(log.user, return_counts=True)
    weight = np.arange(1, LAWS.users + 1) ** -LAWS.zipf
    assert counts.max() / LAWS.samples == pytest.approx(weight[0] / weight.sum(), rel=0.15)
    assert ids.min() >= 1
    assert ids.max() <= LAWS.users
    assert ids[counts.argmax()] != 1


def test_the_lists_of_a_group_change_together_and_at_the_stated_rate(log: SyntheticLog) -> None:
    assert np.array_equal(log.lists["watched"].row, log.lists["saved"].row)
    for group in LAWS.groups:
        distinct = len(np.unique(log.lists[group.features[0]].row))
        measured = LAWS.samples / distinct
        assert measured == pytest.approx(log.expected_factors()[group.name], rel=log.factor_tolerance(group.name))


def test_the_formula_gives_its_known_values() -> None:
    taste = LAWS.groups[0]
    assert LAWS.factor(taste, 16.5) == pytest.approx(6.47, abs=0.01)
    assert LAWS.factor(taste, 1.15) == pytest.approx(1.13, abs=0.01)


def test_lists_are_uniform_in_length(log: SyntheticLog) -> None:
    length = np.diff(log.lists["nearby"].offsets)
    assert (length.min(), length.max()) == (1, 20)
    assert length.mean() == pytest.approx(10.5, rel=0.05)


def test_labels_follow_their_probabilities_and_leave_a_best_ne_between_0_and_1(log: SyntheticLog) -> None:
    realised, error = log.best_ne()
    assert log.label.mean() == pytest.approx(log.probability.mean(), abs=0.02)
    assert realised == pytest.approx(log.expected_best_ne(), abs=4 * error)
    assert 0.7 < log.expected_best_ne() < 0.95


def test_an_impossible_size_names_the_option() -> None:
    with pytest.raises(ConfigError, match="--synthetic 0"):
        Laws(samples=0)
