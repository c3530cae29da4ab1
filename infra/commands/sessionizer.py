"""`recd sessionizer`: the long-running process from events to mini-batches.

Owns the command's options, the metrics endpoint, and what a person or a program sees of a run. Never decides about an
event: a `sessionizer.wiring.Job` is made here and run in this process, as a Faust worker.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from infra import logging
from infra.clock import Clock
from infra.commands.options import ConfigOption, JsonOption, SetOption
from infra.config import Config, load
from infra.config_file import save_resolved
from infra.metrics import PrometheusReporter, serve
from state.profile_store import ProfileStore
from state.redis_profiles import RedisProfiles
from streams.kafka import client, placement, topics
from streams.kafka.reach import reach
from streams.metrics import Reporter, Silent

if TYPE_CHECKING:
    from sessionizer.summary import Summary

INTERRUPTED: Final = 130

ExitAtEndOption = Annotated[
    bool, typer.Option("--exit-at-end", help="Stop when every partition of this worker has reached its end mark.")
]
WebPortOption = Annotated[int, typer.Option("--web-port", help="Port of Faust's web views; 0 turns them off.")]


def sessionizer(
    config: ConfigOption = None,
    overrides: SetOption = None,
    exit_at_end: ExitAtEndOption = False,
    web_port: WebPortOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Turn events into mini-batches until told to stop. Start it several times to share the partitions.

    The first signal lets every partition finish its transaction and write a cut; the second one quits at once, and
    nothing is lost by it: what was not committed is made again.

    Examples:

        recd sessionizer

        recd sessionizer --exit-at-end --json | tail -1

        recd sessionizer --set worker.instance=worker-1
    """
    settings = load(config, overrides or ())
    save_resolved(settings, settings.run.directory)
    clock = Clock()
    reach(settings.kafka)
    topics.ensure(client.admin(settings.kafka), settings.topics, plain=settings.kafka.plain)
    if not settings.kafka.plain:
        _check_placement(settings)
    begun_ms = clock.monotonic_ms()
    summary = _run(settings, clock, exit_at_end=exit_at_end, web_port=web_port)
    reason = "interrupted" if summary.interrupted else "end" if exit_at_end and summary.ended else "terminated"
    _conclude(summary, reason, clock.monotonic_ms() - begun_ms, settings.topics.dead_letter, as_json=as_json)
    if summary.interrupted:
        raise typer.Exit(INTERRUPTED)


def _check_placement(settings: Config) -> None:
    """Two topics must agree on where a user is; one must put each into one place."""
    topics_of = settings.topics
    if topics_of.outcomes is not None:
        placement.check(settings.kafka, topics_of.inputs, topics_of.partitions)
    elif (torn := placement.find_torn(settings.kafka, topics_of.interactions, topics_of.partitions)) is not None:
        logging.logger("sessionizer").warning("users_torn_apart", topic=topics_of.interactions, error=torn)


def _run(settings: Config, clock: Clock, *, exit_at_end: bool, web_port: int) -> Summary:
    # Numba and Faust take seconds to import: only when there is work for them.
    from sessionizer.job import run
    from sessionizer.wiring import Job

    log = logging.logger("sessionizer")
    job = Job(
        kafka=settings.kafka,
        topics=settings.topics,
        schema=settings.schema,
        format=settings.format,
        session=settings.session,
        join=settings.join,
        batch=settings.batch,
        worker=settings.worker,
        trainer_group=settings.source.group,
        reporter=_reporter(settings),
        now_ms=clock.now_ms,
        # What names an error is what an alert should see.
        log=lambda event, fields: (log.warning if "error" in fields else log.info)(event, **fields),
        profiles=settings.profiles,
        profile_store=_profile_store(settings),
    )
    directory = settings.run.directory / "faust"
    directory.mkdir(parents=True, exist_ok=True)
    return run(job, directory=directory, exit_at_end=exit_at_end, web_port=web_port)


def _profile_store(settings: Config) -> ProfileStore | None:
    if not settings.profiles.external:
        return None
    store = RedisProfiles(settings.redis)
    store.check()
    return store


def _reporter(settings: Config) -> Reporter:
    if not settings.metrics.enabled:
        return Silent()
    reporter = PrometheusReporter()
    port = serve(reporter, settings.metrics.host, settings.metrics.sessionizer_port)
    logging.logger("sessionizer").info("metrics", url=f"http://{settings.metrics.host}:{port}/metrics")
    return reporter


def _conclude(summary: Summary, reason: str, wall_ms: int, dead_letters: str, *, as_json: bool) -> None:
    account: Mapping[str, int] = msgspec.to_builtins(summary.account)
    if as_json:
        told = {"partitions": summary.partitions, "ended": summary.ended, "held": summary.held, "account": account}
        sys.stdout.write(
            json.dumps({"event": "summary", "ok": True, **told, "exit_reason": reason, "wall_s": wall_ms / 1000}) + "\n"
        )
    else:
        sys.stdout.write(
            f"{account['events']} events: {account['emitted']} samples in {account['batches']} mini-batches, "
            f"{account['late']} late, {account['duplicates']} duplicates, {account['dead_lettered']} dead-lettered, "
            f"{summary.held} held\n"
        )
        if account["shed"]:
            sys.stdout.write(f"{account['shed']} samples were shed, since the trainer was behind (worker.when_ahead)\n")
        if account["dead_lettered"]:
            sys.stdout.write(f"what is wrong with each: recd inspect dead-letters (topic {dead_letters})\n")
