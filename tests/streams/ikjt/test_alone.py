"""IKJT stands alone: what each way in loads, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "torchrec", "pyarrow", "aiokafka", "confluent_kafka", "faust", "redis")


@pytest.mark.parametrize(
    ("modules", "loads"),
    [
        ("streams.ikjt, streams.exchange.arrays, streams.exchange.records", []),
        ("streams.ikjt.arrow, streams.exchange.parquet", ["pyarrow"]),
        ("streams.ikjt.tensors", ["torch"]),
    ],
)
def test_modules_load_what_they_are_named_after_and_nothing_else(modules: str, loads: list[str]) -> None:
    ask = f"import sys, {modules}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == loads
