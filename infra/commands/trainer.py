"""`recd trainer`: from mini-batches to a trained model.

Owns the command's options, its output and its exit code. Never: how a trainer is built (trainer/build) or run.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import Annotated, Final

import typer

from infra.clock import Clock
from infra.commands.options import ConfigOption, JsonOption, SetOption
from infra.config import Config, load
from infra.config_file import save_resolved
from infra.logging import logger
from infra.metrics import PrometheusReporter, serve
from infra.trainer_watch import Watch, line, put, say
from state.redis import RedisStore
from streams.metrics import Reporter, Silent
from trainer.build import Around, build_trainer
from trainer.crash import kill_at, never
from trainer.drain import EXIT_CODES, Drain
from trainer.ranks.place import Place, place_of
from trainer.run_config import Switches, TrainerConfig
from trainer.summary import Summary

_LOG = logger(__name__)
PUBLISH_MS: Final = 200

ExitAtEndOption = Annotated[
    bool, typer.Option("--exit-at-end", help="Leave once every partition has ended and all of it is trained and saved.")
]
EndEpochOption = Annotated[
    int, typer.Option("--end-epoch", min=0, help="With --exit-at-end: the ends of this epoch or a later one count.")
]
MaxStepsOption = Annotated[int | None, typer.Option("--max-steps", min=1, help="Leave after so many steps.")]
FromOption = Annotated[
    int | None,
    typer.Option(
        "--from-checkpoint",
        metavar="STEP",
        min=1,
        help="Go back to the checkpoint of this step: later ones are set aside, their steps void.",
    ),
]
WithoutLedgerOption = Annotated[bool, typer.Option("--without-ledger", hidden=True, help="The audit's control.")]
CrashAtOption = Annotated[str | None, typer.Option("--crash-at", hidden=True, help="SITE:N, for the audit.")]


def trainer(
    exit_at_end: ExitAtEndOption = False,
    end_epoch: EndEpochOption = 0,
    max_steps: MaxStepsOption = None,
    from_checkpoint: FromOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
    without_ledger: WithoutLedgerOption = False,
    crash_at: CrashAtOption = None,
) -> None:
    """Train on the mini-batches of the topic, each sample once, going on where the last trainer stopped.

    SIGTERM or SIGINT: it finishes its step, saves and leaves (exit code 0, or 130 for SIGINT). A second signal ends
    it at once; nothing is lost by that.

    Examples:

        recd trainer

        recd trainer --exit-at-end --json | tail -1

        recd trainer --set checkpoint.directory=models/b --max-steps 1000

        recd trainer --from-checkpoint 12000

        torchrun --nproc-per-node 2 --no-python recd trainer
    """
    settings = load(config, overrides or ())
    place = place_of(os.environ)
    clock = Clock()
    drain = Drain(settings.checkpoint.drain_ms)
    drain.listen()
    crash = kill_at(crash_at) if crash_at is not None else never
    switches = Switches(
        exit_at_end=exit_at_end,
        end_epoch=end_epoch,
        max_steps=max_steps,
        from_step=from_checkpoint,
        without_ledger=without_ledger,
    )
    if place is not None and not place.leads:
        raise typer.Exit(_follow(settings, place, Around(clock=clock, crash=crash), drain, switches))
    save_resolved(settings, settings.run.directory)
    reporter = _reporter(settings)
    # Published between two steps: a Redis that is gone may not hold training up for long.
    store = RedisStore(replace(settings.redis, timeout_ms=min(settings.redis.timeout_ms, PUBLISH_MS)))
    watch = Watch(clock, reporter, store, settings.topics.interactions, as_json=as_json)
    around = Around(clock=clock, reporter=reporter, watcher=watch, crash=crash)
    summary = _train(settings, place, around, drain, switches)
    assert summary.exit_reason is not None, "a run that returned has a reason"
    if as_json:
        put({"event": "summary", "ok": True, **asdict(summary)})
    else:
        say(line(summary))
    raise typer.Exit(EXIT_CODES[summary.exit_reason])


def _train(settings: Config, place: Place | None, around: Around, drain: Drain, switches: Switches) -> Summary:
    """Alone, or as the first of several ranks."""
    config = trainer_config(settings)
    if place is None:
        return build_trainer(config, around, drain, switches).run()
    from trainer.ranks.build import Job, lead

    return lead(Job(config=config, place=place, around=around, drain=drain, switches=switches))


def _follow(settings: Config, place: Place, around: Around, drain: Drain, switches: Switches) -> int:
    """As any other rank: rank 0 has the metrics, the output and the checkpoints. The exit code."""
    from trainer.ranks.build import Job, follow

    job = Job(config=trainer_config(settings), place=place, around=around, drain=drain, switches=switches)
    return EXIT_CODES[follow(job)]


def trainer_config(settings: Config) -> TrainerConfig:
    """What the trainer takes of the whole configuration."""
    return TrainerConfig(
        kafka=settings.kafka,
        topic=settings.topics.minibatches,
        schema=settings.schema,
        model=settings.model,
        optimizer=settings.optimizer,
        train=settings.train,
        source=settings.source,
        checkpoint=settings.checkpoint,
    )


def _reporter(settings: Config) -> Reporter:
    if not settings.metrics.enabled:
        return Silent()
    reporter = PrometheusReporter()
    port = serve(reporter, settings.metrics.host, settings.metrics.trainer_port)
    _LOG.info("metrics_served", url=f"http://{settings.metrics.host}:{port}/metrics")
    return reporter
