"""`recd checkpoint`: the checkpoints of a lineage: list, inspect, verify, prune, migrate.

Owns what is shown, and that nothing is removed while a trainer works in the directory. Going back to an older one is
`recd trainer --from-checkpoint`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from infra.clock import Clock
from infra.commands.checkpoint_view import listed, whole
from infra.commands.options import ConfigOption, JsonOption, SetOption
from infra.commands.trainer import trainer_config
from infra.config import Config, load
from streams.errors import ConfigError
from streams.kafka.client import consumer
from trainer import topic as topics
from trainer.checkpoint.prune import pruning
from trainer.checkpoint.store import found, remove, step_of
from trainer.lease import Lease
from trainer.ledger import TopicIdentity
from trainer.migrate.run import migrate, migration
from trainer.run_config import CHECKPOINTS, TrainerConfig

Action = Literal["list", "inspect", "verify", "prune", "migrate"]

ActionArgument = Annotated[Action, typer.Argument(help="list, inspect, verify, prune or migrate.")]
StepOption = Annotated[
    int | None,
    typer.Option("--step", min=0, help="inspect, verify, migrate: of this step. Default: the newest; verify: all."),
]
KeepOption = Annotated[int | None, typer.Option("--keep", min=1, help="prune: so many stay. Default: checkpoint.keep.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="prune, migrate: say what would be done, change nothing.")
]
FromOption = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE", help="migrate: the configuration the checkpoint was trained under."),
]


def checkpoint(
    action: ActionArgument,
    step: StepOption = None,
    keep: KeepOption = None,
    dry_run: DryRunOption = False,
    trained_under: FromOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """List checkpoints, show one, verify them byte by byte, remove old ones, or carry one over to another model.

    verify leaves with exit code 1 where one is damaged. prune never removes the newest that verifies, and refuses
    while a trainer works in the directory. To go back to an older one: recd trainer --from-checkpoint STEP.

    migrate adds or drops features, tables and tasks and grows tables: it begins a new lineage in the directory of the
    configuration from a checkpoint of the one in --from, whose directory it only reads.

    Examples:

        recd checkpoint list

        recd checkpoint inspect --step 12000 --json

        recd checkpoint verify

        recd checkpoint prune --keep 2 --dry-run

        recd checkpoint migrate --from old.toml --config new.toml --dry-run
    """
    settings = load(config, overrides or ())
    lineage = Path(settings.checkpoint.directory)
    directory = lineage / CHECKPOINTS
    if action == "prune":
        _prune(lineage, keep or settings.checkpoint.keep, dry_run=dry_run, as_json=as_json)
        return
    if action == "migrate":
        if trained_under is None:
            raise ConfigError("migrate needs --from FILE: the configuration that the checkpoint was trained under")
        _migrate(load(trained_under), settings, step, dry_run=dry_run, as_json=as_json)
        return
    paths = _chosen(directory, step)
    if action == "list":
        shown = [listed(path) for path in paths]
    elif action == "verify":
        shown = [listed(path, verify=True) for path in paths]
    else:
        shown = [whole(paths[0])]
    for each in shown:
        _say(each, as_json=as_json, in_full=action == "inspect")
    damaged = [each for each in shown if "damage" in each]
    _end({"shown": len(shown), "damaged": len(damaged)}, ok=not damaged, as_json=as_json)
    if damaged and action == "verify":
        sys.stderr.write(
            "a trainer passes over damaged checkpoints and begins at the newest that verifies; copy one back from a "
            "backup before it starts, or let it repeat the steps after that from the ledger\n"
        )
        raise typer.Exit(1)


def _chosen(directory: Path, step: int | None) -> list[Path]:
    every = found(directory)
    paths = [path for path in every if step is None or step_of(path) == step]
    if not paths:
        known = ", ".join(str(step_of(path)) for path in every) or "none"
        raise ConfigError(
            f"{directory} holds no checkpoint{'' if step is None else f' of step {step}'} (steps: {known}); "
            "check checkpoint.directory, or let a trainer save one"
        )
    return paths


def _prune(lineage: Path, keep: int, *, dry_run: bool, as_json: bool) -> None:
    directory = lineage / CHECKPOINTS
    if not directory.is_dir():
        raise ConfigError(f"{directory} does not exist; check checkpoint.directory")
    clock = Clock()
    lease = None if dry_run else Lease.take(lineage, clock.now_ms(), 0, clock.sleep)
    try:
        plan = pruning(directory, keep)
        if not dry_run:
            remove(plan.doomed)
    finally:
        if lease is not None:
            lease.release()
    verb = "would_remove" if dry_run else "removed"
    for path in plan.doomed:
        _say({verb: str(path)}, as_json=as_json)
    kept = str(plan.kept) if plan.kept is not None else None
    _end({verb: len(plan.doomed), "num_bytes": plan.num_bytes, "newest_verified": kept}, ok=True, as_json=as_json)


def _migrate(was: Config, now: Config, step: int | None, *, dry_run: bool, as_json: bool) -> None:
    clock = Clock()
    old, new = trainer_config(was), trainer_config(now)
    asked = migration(old, new, step)
    for change in asked.changes:
        _say({"change": change}, as_json=as_json)
    summary: dict[str, Any] = {"from": str(asked.checkpoint.path), "changes": len(asked.changes)}
    summary["goes_on"] = "at the same positions" if asked.same_topic else f"at the beginning of {new.topic}"
    if not dry_run:
        summary["path"] = str(migrate(old, new, asked, clock, lambda: _topic(new, clock)))
    _end(summary, ok=True, as_json=as_json)


def _topic(config: TrainerConfig, clock: Clock) -> TopicIdentity:
    reader = consumer(config.kafka, group=f"{config.source.group}-migrate")
    try:
        return topics.find(reader, config.kafka, config.topic, config.source.start_wait_ms, clock.sleep)
    finally:
        reader.close()


def _say(each: dict[str, Any], *, as_json: bool, in_full: bool = False) -> None:
    if as_json:
        sys.stdout.write(f"{msgspec.json.encode(each).decode()}\n")
    elif in_full:
        sys.stdout.write(f"{msgspec.json.format(msgspec.json.encode(each), indent=2).decode()}\n")
    else:
        sys.stdout.write("  ".join(f"{key} {value}" for key, value in each.items()) + "\n")


def _end(summary: dict[str, Any], *, ok: bool, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(f"{msgspec.json.encode({'event': 'summary', 'ok': ok, **summary}).decode()}\n")
    elif "shown" not in summary:
        sys.stdout.write("  ".join(f"{key} {value}" for key, value in summary.items()) + "\n")
