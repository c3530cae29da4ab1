"""The controller of the wait: within its bounds, as long as the delay allows, and over every spike in a known time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.compatible import fingerprint
from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.steering import WINDOW, Steering
from streams.errors import ConfigError
from tests.sessionizer.shell.world import SCHEMA

TARGET_MS = 10_000
DELAYS = st.lists(st.integers(-100, 3 * TARGET_MS), max_size=3 * WINDOW)


def steered(delays: list[int], target_ms: int = TARGET_MS) -> Steering:
    """After a start, and then so many delays."""
    steering = Steering(target_ms)
    steering.learn(9 * TARGET_MS)
    for delay_ms in delays:
        steering.learn(delay_ms)
    return steering


def test_before_anything_is_known_samples_wait_as_little_as_they_ever_will() -> None:
    assert Steering(TARGET_MS).wait_ms == TARGET_MS // 10
    assert steered([]).wait_ms == TARGET_MS // 10
    assert steered([]).delay_ms is None
    assert not steered([]).is_missed


@given(st.integers(1, 1 << 53), DELAYS)
def test_the_wait_is_never_less_than_a_tenth_of_the_target_and_never_more_than_all_of_it(
    target_ms: int, delays: list[int]
) -> None:
    steering = steered(delays, target_ms)
    assert 1 <= steering.least_ms <= max(1, target_ms / 10)
    assert steering.least_ms <= steering.wait_ms <= target_ms
    assert steering.is_missed == (steering.wait_ms + (steering.delay_ms or 0) > target_ms)


@given(st.integers(0, 2 * TARGET_MS), DELAYS)
def test_under_a_constant_delay_the_wait_is_the_rest_of_the_target_whatever_was_before(
    delay_ms: int, before: list[int]
) -> None:
    assert steered([delay_ms]).wait_ms == max(TARGET_MS // 10, TARGET_MS - delay_ms)
    settled = steered(before + [delay_ms] * WINDOW)
    assert settled.wait_ms == max(TARGET_MS // 10, TARGET_MS - delay_ms)
    assert settled.is_missed == (delay_ms > TARGET_MS - TARGET_MS // 10)


@given(DELAYS, st.data())
def test_longer_delays_never_make_a_longer_wait(delays: list[int], data: st.DataObject) -> None:
    more = data.draw(st.lists(st.integers(0, TARGET_MS), min_size=len(delays), max_size=len(delays)))
    slower = [delay_ms + longer_ms for delay_ms, longer_ms in zip(delays, more, strict=True)]
    assert steered(slower).wait_ms <= steered(delays).wait_ms


@given(st.integers(0, TARGET_MS), st.integers(1, 5), st.integers(0, 3 * WINDOW))
def test_one_delay_out_of_the_ordinary_changes_nothing_and_more_of_them_are_forgotten_after_39(
    usual_ms: int, spikes: int, after: int
) -> None:
    usual = steered([usual_ms] * WINDOW).wait_ms
    wait_ms = steered([usual_ms] * WINDOW + [5 * TARGET_MS] * spikes + [usual_ms] * after).wait_ms
    # The one that is left of them counts for nothing.
    forgotten = spikes == 1 or after >= WINDOW - 1
    assert wait_ms == (usual if forgotten else TARGET_MS // 10)


def test_of_delays_that_are_alike_19_of_20_are_no_longer_than_was_learned_whatever_they_are_like() -> None:
    draw = np.random.default_rng(1)
    for delays in (draw.lognormal(6, 1, 20_000), draw.uniform(100, 8_000, 20_000), draw.pareto(1.1, 20_000) * 500):
        steering, within = Steering(TARGET_MS), []
        for delay_ms in delays.astype(np.int64).tolist():
            within.append(steering.delay_ms is not None and delay_ms <= steering.delay_ms)
            steering.learn(delay_ms)
        assert 0.945 < np.mean(within) < 0.955


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"target_fresh_ms": 1, "fresh_ms": 1}, r"batch\.fresh_ms and batch\.target_fresh_ms are both set; keep"),
        ({"target_fresh_ms": -1}, r"batch\.target_fresh_ms must lie in"),
        ({"fresh": "parts"}, r"does nothing without batch\.fresh_ms or batch\.target_fresh_ms"),
    ],
)
def test_settings_that_say_nothing_or_two_things_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        BatchConfig(**settings)  # type: ignore[arg-type]  # the cases name fields of it


def test_a_cut_can_be_gone_on_from_under_another_target() -> None:
    def made(batch: BatchConfig) -> int:
        return fingerprint(SCHEMA, SessionConfig(), batch, JoinConfig(), with_outcomes=False)

    plain = BatchConfig()
    assert made(dataclasses.replace(plain, target_fresh_ms=TARGET_MS)) == made(plain)
    assert made(dataclasses.replace(plain, fresh_ms=TARGET_MS)) != made(plain)
