"""Event times of every unit and spelling."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import PoisonError
from streams.events.ids import Scalar
from streams.events.roles import TimeUnit
from streams.events.times import time_ms, times_ms

NUMERIC: list[TimeUnit] = ["s", "ms", "us", "ns"]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1_700_000_000, "s", 1_700_000_000_000),
        (1.7e9, "s", 1_700_000_000_000),
        ("1700000000", "s", 1_700_000_000_000),
        (1_700_000_000.123, "s", 1_700_000_000_123),
        ("1700000000.123", "s", 1_700_000_000_123),
        (1_700_000_000_999, "ms", 1_700_000_000_999),
        (1_700_000_000_999.9, "ms", 1_700_000_000_999),
        (1_700_000_000_999_999, "us", 1_700_000_000_999),
        (1_700_000_000_999_999_999, "ns", 1_700_000_000_999),
        (-1, "us", -1),
        ("2026-07-13 17:09:11.593", "iso", 1_783_962_551_593),
        ("2026-07-13T17:09:11.593Z", "iso", 1_783_962_551_593),
        ("2026-07-13T10:09:11.593-07:00", "iso", 1_783_962_551_593),
        ("2026-07-13", "iso", 1_783_900_800_000),
    ],
)
def test_a_time_of_each_unit_comes_out_in_milliseconds(value: Scalar, unit: TimeUnit, expected: int) -> None:
    assert time_ms(value, unit) == expected


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Kolkata"])
def test_a_time_without_a_zone_means_utc_wherever_the_machine_stands(zone: str) -> None:
    # The last two fall into the hours that Los Angeles skips and repeats.
    texts = ["2026-07-13 17:09:11.593", "2026-03-08 02:30:00", "2026-11-01 01:30:00"]
    code = f"from streams.events.times import time_ms; print(*[time_ms(text, 'iso') for text in {texts}])"
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TZ": zone}, check=True, capture_output=True)
    assert [int(word) for word in ran.stdout.split()] == [time_ms(f"{text}+00:00", "iso") for text in texts]


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (None, "ms"),
        ("", "ms"),
        (True, "ms"),
        ("soon", "ms"),
        ("nan", "s"),
        (1_700_000_000, "iso"),
        ("13.7.2026", "iso"),
    ],
)
def test_what_is_no_time_is_refused(value: Scalar, unit: TimeUnit) -> None:
    with pytest.raises(PoisonError):
        time_ms(value, unit)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.sampled_from(NUMERIC))
def test_a_column_of_integers_converts_as_its_values_do(values: list[int], unit: TimeUnit) -> None:
    assert times_ms(np.array(values, dtype=np.int64), unit).tolist() == [time_ms(value, unit) for value in values]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.sampled_from(NUMERIC))
def test_a_column_of_floats_converts_as_its_values_do(values: list[float], unit: TimeUnit) -> None:
    assert times_ms(np.array(values), unit).tolist() == [time_ms(value, unit) for value in values]


@given(st.integers(1_400_000_000, 4_000_000_000), st.sampled_from(NUMERIC))
def test_a_whole_number_is_the_same_time_as_a_float_or_as_text(seconds: int, unit: TimeUnit) -> None:
    # In nanoseconds a float no longer holds every integer; it holds these.
    number = seconds * {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit] // 512 * 512
    assert time_ms(number, unit) == time_ms(float(number), unit) == time_ms(str(number), unit)
