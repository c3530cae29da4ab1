"""The demo from nothing to a checked, pictured result.

    services → topics → sessionizer, trainer and ingest as processes → everything ends by itself at the end marks →
    read the mini-batches back → measure, compare with the plain model → check the account → summary and report

Owns: the order of these, and leaving nothing behind however it ends.
Never: computes a figure itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from infra.clock import Clock, Deadline
from infra.config import Config, from_values
from infra.config_file import commented, save_resolved
from infra.demo.finish import Finished, finish
from infra.demo.inputs import DemoInput, movielens_100k, synthetic
from infra.demo.live import run_processes
from infra.demo.options import DemoOptions
from infra.demo.paths import DemoPaths
from infra.demo.screen import Screen
from infra.services import lock, ports
from infra.services.stack import Addresses, Stack
from streams.kafka.client import admin
from streams.kafka.topics import ensure

LOCK_MS: Final = 1_000
CHECKPOINT_EVERY_MS: Final = 5_000
"""Often enough that a short run has several."""


def run_demo(options: DemoOptions, paths: DemoPaths, clock: Clock, screen: Screen) -> Finished:
    """Run it; raises if a process failed. Broken checks are in what it returns."""
    begun_ms = clock.monotonic_ms()
    with lock.held(paths.root / "lock", Deadline.after(clock, LOCK_MS)):
        stack = Stack(paths.services, clock=clock, report=screen.say, tied=not options.keep)
        stack.down()
        paths.clear()
        chosen = _input(options, paths)
        screen.say(f"recd demo on {chosen.title}: {chosen.events:,} events")
        if chosen.terms:
            screen.say(chosen.terms)
        with _services(stack, paths, options) as addresses:
            config = configure(chosen, options, paths, addresses)
            ensure(admin(config.kafka, {"log_level": 4}), config.topics, plain=config.kafka.plain)
            live = run_processes(config, chosen, paths, clock, screen, options.rate)
            screen.say("all is trained: measuring, comparing with the plain model, drawing")
            return finish(config, chosen, live, paths, options, clock, begun_ms)


def configure(chosen: DemoInput, options: DemoOptions, paths: DemoPaths, addresses: Addresses) -> Config:
    """The input's configuration with this run's addresses, folders and options; saved as a file of its own."""
    metrics = ports.choose(paths.root, ())
    values: dict[str, Any] = {**chosen.values}
    for section, keys in _overrides(options, paths, addresses).items():
        values[section] = {**values.get(section, {}), **keys}
    values["metrics"] = {
        "sessionizer_port": metrics,
        "trainer_port": ports.choose(paths.root, {metrics}),
    }
    config = from_values(values)
    paths.config.write_text(commented(values), encoding="utf-8")
    save_resolved(config, paths.run)
    return config


def _overrides(options: DemoOptions, paths: DemoPaths, addresses: Addresses) -> dict[str, dict[str, Any]]:
    return {
        "kafka": {"bootstrap": addresses.kafka, "plain": addresses.kind == "memory"},
        "redis": {"url": addresses.redis},
        "batch": {"samples": options.batch},
        # Kafka, the sessionizer and the trainer share this machine.
        "train": {"seed": options.seed, "step_samples": options.batch, "threads": max(1, (os.cpu_count() or 1) // 2)},
        "checkpoint": {"directory": str(paths.model), "every_ms": CHECKPOINT_EVERY_MS},
        "run": {"directory": str(paths.run)},
    }


def _input(options: DemoOptions, paths: DemoPaths) -> DemoInput:
    if options.samples is None:
        return movielens_100k(paths.cache)
    return synthetic(options.samples, options.seed, paths.run)


@contextmanager
def _services(stack: Stack, paths: DemoPaths, options: DemoOptions) -> Iterator[Addresses]:
    try:
        yield stack.up(kind="memory" if options.memory else "auto")
    finally:
        if not options.keep:
            stack.down()
            paths.clear_services()
