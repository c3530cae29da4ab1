"""Everybody on the same topics, in turns: CPU time an event, of all threads, the broker outside.

Owns what is compared with what. Each program runs once on a long topic and once on a short one in every round. A
long run less the median of the short ones, over the events between them, is its cost: starting, importing and loading
kernels cancel out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.sessionizer import child, setup
from benchmarks.sessionizer.emitted import checked
from benchmarks.sessionizer.setup import Filled, fill
from benchmarks.sessionizer.stream import Law
from benchmarks.sessionizer.worker import PROGRAM, work
from benchmarks.turns import I64, Result, timed, with_context
from streams.kafka import client, topics

ROUNDS: Final = 3
EVENTS_A_MESSAGE: Final = 512
NOT_INSTALLED: Final = "bytewax is not installed; `uv sync --extra cpu --group bench` installs it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Impressions of the topics, and how often each is run."""

    short: int = 4_000
    long: int = 240_000
    slow: int = 24_000
    """Of the topic for those that need hundreds of microseconds an event."""
    listed: int = 100_000
    """Of the topic with long lists."""
    rounds: int = ROUNDS


@dataclass(frozen=True, slots=True)
class Place:
    """Where a contest takes place."""

    kafka: str
    directory: Path
    core: int


Run = Callable[[Filled, str], float]
"""Seconds of CPU for a topic, under a name that no run had before."""


def small(place: Place, sizes: Sizes, rounds: int | None = None) -> Iterator[Result]:
    """Events of about 150 bytes: recd against fetching and decoding alone, a Faust agent and bytewax."""
    rounds = rounds or sizes.rounds
    law = Law()
    short, slow, long = (fill(place.kafka, f"json150-{n}", law, n) for n in (sizes.short, sizes.slow, sizes.long))
    runs = entrants(place)
    costs = _in_turns({name: (run, short, slow if name == "agent" else long) for name, run in runs.items()}, rounds)
    context = _context(long, rounds) | {"event_bytes": round(long.num_bytes / long.num_events)}
    ours = costs["recd"]
    told = {
        "over_confluent_decode": ("consume and the same decode to columns, alone", "columns"),
        "over_confluent_parse": ("consume and the same fields as typed objects, alone", "fields"),
        "over_faust_agent": ("a Faust agent that does the same event by event, at least once", "agent"),
        "over_bytewax": ("bytewax's session window", "bytewax"),
    }
    for last, (baseline, entrant) in told.items():
        name = f"sessionizer.json150.{last}"
        if entrant in costs:
            yield _line(name, ours, baseline, costs[entrant], context)
        else:
            yield {"id": name, "value": None, "context": {"not present": NOT_INSTALLED}}


def listed(place: Place, sizes: Sizes, rounds: int | None = None) -> Iterator[Result]:
    """Events with three long lists: recd against fetching and decoding every list."""
    rounds = rounds or sizes.rounds
    law = Law(lists=True, clicked=0.05)
    short, long = (fill(place.kafka, f"json-long-{n}", law, n) for n in (sizes.short, sizes.listed))
    runs = {
        "recd": _recd(place),
        "everything": _confluent(place, "everything"),
        "worker": _recd(place, "benchmarks.sessionizer.decoding_worker"),
    }
    costs = _in_turns({name: (run, short, long) for name, run in runs.items()}, rounds)
    context = _context(long, rounds) | {"event_bytes": round(long.num_bytes / long.num_events)}
    told = {
        "over_decode_all": ("consume and decode of every list, alone", "everything"),
        "over_worker_that_decodes_all": ("the same worker, every list decoded with msgspec", "worker"),
    }
    for last, (baseline, entrant) in told.items():
        yield _line(f"sessionizer.json_long.{last}", costs["recd"], baseline, costs[entrant], context)


def many_a_message(place: Place, sizes: Sizes, rounds: int | None = None) -> Iterator[Result]:
    """Arrow messages of many events: recd against recd on the same events, a JSON message each."""
    rounds = rounds or sizes.rounds
    law = Law()
    runs: dict[str, tuple[Run, Filled, Filled]] = {}
    for name, events in (("arrow", EVENTS_A_MESSAGE), ("json", 1)):
        short, long = (
            fill(place.kafka, f"many-{name}-{n}", law, n, events_a_message=events) for n in (sizes.short, sizes.long)
        )
        runs[name] = _recd(place), short, long
    costs = _in_turns(runs, rounds)
    long = runs["arrow"][2]
    context = _context(long, rounds) | {"event_bytes": round(long.num_bytes / long.num_events)}
    yield _line(
        f"sessionizer.arrow{EVENTS_A_MESSAGE}.over_json150",
        costs["arrow"],
        "the same worker, a JSON message each",
        costs["json"],
        context | {"events_a_message": EVENTS_A_MESSAGE},
    )


def entrants(place: Place) -> dict[str, Run]:
    """Everybody who takes small events."""
    found = {
        "recd": _recd(place),
        "fields": _confluent(place, "fields"),
        "columns": _confluent(place, "columns"),
        "agent": _agent(place),
    }
    return found | ({"bytewax": _bytewax(place)} if find_spec("bytewax") else {})


def _in_turns(runs: Mapping[str, tuple[Run, Filled, Filled]], rounds: int) -> dict[str, I64]:
    """Nanoseconds an event of each, one a round. A first round on the short topics is not counted: it fills caches."""
    for name, (run, short, _) in runs.items():
        run(short, f"{name}-warm")
    begun: dict[str, list[float]] = {name: [] for name in runs}
    whole: dict[str, list[float]] = {name: [] for name in runs}
    for r in range(rounds):
        for name, (run, short, long) in runs.items():
            begun[name].append(run(short, f"{name}-short{r}"))
            whole[name].append(run(long, f"{name}-long{r}"))
    costs = {}
    for name, (_, short, long) in runs.items():
        more = np.asarray(whole[name]) - np.median(begun[name])
        costs[name] = (1e9 * more / (long.num_events - short.num_events)).astype(np.int64)
    return costs


def _recd(place: Place, program: str = PROGRAM) -> Run:
    truths: set[str] = set()

    def run(filled: Filled, name: str) -> float:
        worked = work(filled, name, place.directory, place.core, program=program)
        if filled.topic not in truths:
            checked(filled, worked.config)
            truths.add(filled.topic)
        setup.dropped(worked.config)
        return worked.used.cpu_s

    return run


def _confluent(place: Place, decode: str) -> Run:
    return _program(place, "benchmarks.sessionizer.confluent_decode", {"decode": decode}, _all_events)


def _agent(place: Place) -> Run:
    settings = {"directory": str(place.directory / "agent")}
    program = _program(place, "benchmarks.sessionizer.faust_agent", settings, _all_samples)

    def run(filled: Filled, name: str) -> float:
        config = setup.configured(filled.kafka, filled.topic, filled.law, name="agent", partitions=filled.partitions)
        topics.ensure(client.admin(config.kafka), config.topics)
        try:
            return program(filled, name)
        finally:
            setup.dropped(config)

    return run


def _bytewax(place: Place) -> Run:
    return _program(place, "benchmarks.sessionizer.bytewax_window", {}, _all_events)


def _all_events(filled: Filled, said: Mapping[str, int]) -> bool:
    return said["events"] == filled.num_events


def _all_samples(filled: Filled, said: Mapping[str, int]) -> bool:
    return (said["samples"], said["clicked"]) == (filled.num_views, filled.num_events - filled.num_views)


def _program(place: Place, module: str, settings: dict[str, Any], complete: Callable[..., bool]) -> Run:
    def run(filled: Filled, name: str) -> float:
        told = {
            "kafka": place.kafka,
            "topic": filled.topic,
            "partitions": filled.partitions,
            "events": filled.num_events,
            "lists": filled.law.lists,
        }
        used = child.run(module, [json.dumps(told | settings)], core=place.core)
        if not complete(filled, used.said):
            raise RuntimeError(f"{name} did not do all of the work: {used.said}")
        return used.cpu_s

    return run


def _line(name: str, ours: I64, baseline: str, theirs: I64, context: Mapping[str, object]) -> Result:
    """Microseconds of CPU an event; the ratio is theirs over ours."""
    line = timed(name, ours, baseline, theirs, "µs of CPU an event", 1.0)
    value, baseline_value = (round(float(np.median(each)) / 1000, 2) for each in (ours, theirs))
    each = {"each": (ours / 1000).round(2).tolist(), "baseline_each": (theirs / 1000).round(2).tolist()}
    return with_context(line | {"value": value, "baseline_value": baseline_value}, dict(context) | each)


def _context(filled: Filled, rounds: int) -> dict[str, object]:
    law = filled.law
    return {
        "events": filled.num_events,
        "partitions": filled.partitions,
        "open_at_once": law.active,
        "session_impressions": law.length,
        "joins": True,
        "transactions": True,
        "profiles": "in the cuts",
        "rounds": rounds,
    }
