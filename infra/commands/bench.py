"""`recd bench`: the benchmarks, each a ratio in one run.

Owns the command's options and output, and which benchmarks there are. What they measure is in `benchmarks/`, which
comes with the repository and not with the wheel.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Annotated, Any, Final

import msgspec
import typer

from infra.commands.options import JsonOption
from streams.errors import ConfigError

BENCHES: Final = {
    "cache": "benchmarks.trainer.cache",
    "ikjt": "benchmarks.ikjt",
    "partial": "benchmarks.partial",
    "sessionizer": "benchmarks.sessionizer.run",
    "trainer": "benchmarks.trainer.run",
    "transforms": "benchmarks.transforms",
    "wire": "benchmarks.wire",
}
"""Name to module; its `measure()` gives the result lines."""
_NAMES: Final = ", ".join(BENCHES)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {_NAMES}.")]


def bench(name: NameArgument, as_json: JsonOption = False) -> None:
    """Run one benchmark; what is compared is always the ratio, measured in turns in one run.

    cache: what a hot tier keeps against Belady's rule, and training with a quarter of the rows in memory; ikjt: finding
    equal rows, then all of wire; partial: what windows save on MovieLens; sessionizer: a worker against
    other consumers of the same topic, on a Kafka of its own, a quarter of an hour; trainer: a step on distinct rows
    against plain rows on fbgemm's tables; transforms: of distinct rows, against the expanded batch; wire: bytes a
    sample and decoding. RECD_DATA names the folder of the KuaiRand sample, which is left out where it is not there.

    Examples:

        recd bench ikjt

        recd bench wire --json > results.jsonl
    """
    measure = _measure(name)
    count = 0
    if not as_json:
        sys.stdout.write(f"{'id':<42} {'ratio':>8} {'spread':>15} {'value':>9} {'baseline':>9}  unit\n")
    for line in measure():
        count += 1
        sys.stdout.write(f"{msgspec.json.encode(line).decode() if as_json else _row(line)}\n")
        sys.stdout.flush()
    if as_json:
        summary = {"event": "summary", "ok": True, "results": count, "exit_reason": "done"}
        sys.stdout.write(f"{msgspec.json.encode(summary).decode()}\n")


def _measure(name: str) -> Callable[[], Iterator[dict[str, Any]]]:
    """The benchmark's function. Raises ConfigError where there is none."""
    if name not in BENCHES:
        raise ConfigError(f"no benchmark {name}; there are: {_NAMES}")
    if find_spec("benchmarks") is None:
        raise ConfigError("benchmarks come with the repository, not with the wheel: clone it and run this there")
    measure: Callable[[], Iterator[dict[str, Any]]] = importlib.import_module(BENCHES[name]).measure
    return measure


def _row(line: dict[str, Any]) -> str:
    """One result for a person."""
    if line["value"] is None:
        return f"{line['id']:<42} not present: {line['context']['not present']}"
    low, high = line["spread"]
    figures = f"{line['ratio']:>8.3f} {f'{low:.3f}–{high:.3f}':>15} {line['value']:>9} {line['baseline_value']:>9}"
    return f"{line['id']:<42} {figures}  {line['unit']}; baseline: {line['baseline']}"
