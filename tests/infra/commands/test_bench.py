"""`recd bench`: what it prints, and what it says about names it does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from benchmarks import wire
from benchmarks.ikjt import deduplication
from infra.cli import BAD_USAGE, DONE, run
from infra.commands.bench import BENCHES, bench


def test_a_name_that_does_not_exist_is_refused_with_those_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "nothing"]) == BAD_USAGE
    assert (
        "no benchmark nothing; there are: cache, ikjt, partial, sessionizer, trainer, transforms, wire"
        in capsys.readouterr().err
    )


def test_results_are_a_line_each_and_the_summary_comes_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHES, "wire", __name__)
    assert run(["bench", "wire", "--json"]) == DONE
    *results, summary = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [each["id"] for each in results] == [
        "ikjt.dedup.adjacent.over_read_bandwidth",
        "ikjt.dedup.adjacent.over_python_dict",
        "ikjt.wire.kuairand.bytes_ratio",
    ]
    assert summary == {"event": "summary", "ok": True, "results": 3, "exit_reason": "done"}


def test_a_person_gets_a_table_that_says_which_data_are_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHES, "wire", __name__)
    bench("wire")
    head, first, _, last = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["id", "ratio"]
    assert first.startswith("ikjt.dedup.adjacent.over_read_bandwidth")
    assert last.split() == ["ikjt.wire.kuairand.bytes_ratio", "not", "present:", "set", "RECD_DATA"]


def measure() -> Iterator[dict[str, object]]:
    """A short benchmark: real lines, few rounds, no data."""
    yield from deduplication("adjacent", rounds=1)
    yield wire.kuairand(None)
