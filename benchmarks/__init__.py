"""Benchmarks: ratios taken in one run, one JSON line a result; `python -m benchmarks.NAME`."""
