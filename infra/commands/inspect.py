"""`recd inspect`: stored things, for a person or a program: a mini-batch, a checkpoint, ledger lines, dead letters.

Owns what is shown of each. Reads only; safe beside a running trainer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
import typer
from confluent_kafka import KafkaError, TopicPartition

from infra.commands.checkpoint_view import listed, whole
from infra.commands.dead_letters import show_letters
from infra.commands.options import ConfigOption, JsonOption, SetOption
from infra.config import Config, load
from streams import wire
from streams.errors import ConfigError
from streams.kafka.client import consumer
from streams.kafka.end_record import epoch_of, is_end
from streams.kafka.letters import read_letters
from streams.minibatch import MiniBatch
from streams.stage import Stage
from trainer.checkpoint.store import found, step_of
from trainer.kept import kept_steps
from trainer.ledger_file import read
from trainer.run_config import CHECKPOINTS, LEDGER, SKIPPED

What = Literal["batch", "checkpoint", "checkpoints", "ledger", "skipped", "dead-letters"]
_WAIT_S: Final = 10.0
_LETTERS: Final = 10

WhatArgument = Annotated[What, typer.Argument(help="batch, checkpoint, checkpoints, ledger, skipped or dead-letters.")]
PartitionOption = Annotated[int, typer.Option("--partition", "-p", min=0, help="batch: partition of the topic.")]
OffsetOption = Annotated[int | None, typer.Option("--offset", min=0, help="batch: this offset, or the next record.")]
StepOption = Annotated[
    int | None, typer.Option("--step", min=0, help="checkpoint, ledger: of this step. Default: last.")
]
LastOption = Annotated[
    int | None, typer.Option("--last", min=1, help="ledger, dead-letters: so many. Default: 1 line, 10 letters.")
]


def inspect(
    what: WhatArgument,
    partition: PartitionOption = 0,
    offset: OffsetOption = None,
    step: StepOption = None,
    last: LastOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a mini-batch, a checkpoint (verified), the list of checkpoints, lines of the ledger, or dead letters.

    skipped: steps that were not finite, what in their mini-batches was not, and where those are kept.

    Examples:

        recd inspect batch --partition 2 --offset 1041

        recd inspect checkpoint --json

        recd inspect ledger --step 1200

        recd inspect skipped

        recd inspect dead-letters --last 3
    """
    settings = load(config, overrides or ())
    directory = Path(settings.checkpoint.directory)
    if what == "dead-letters":
        topic = settings.topics.dead_letter
        show_letters(read_letters(settings.kafka, topic), topic, last or _LETTERS, as_json=as_json)
        return
    if what == "batch":
        shown = [_batch(settings, partition, offset or 0)]
    elif what == "ledger":
        shown = list(_lines(directory, step, last or 1))
    elif what == "skipped":
        shown = kept_steps(directory / SKIPPED)
        if not shown and not as_json:
            sys.stderr.write(f"{directory / SKIPPED} holds nothing: no step was skipped because it was not finite\n")
    elif what == "checkpoints":
        shown = [listed(path) for path in found(directory / CHECKPOINTS)]
        if not shown and not as_json:
            sys.stderr.write(f"{directory / CHECKPOINTS} holds no checkpoint yet\n")
    else:
        shown = [_checkpoint(directory, step)]
    _put(shown, as_json=as_json)


def _batch(settings: Config, partition: int, offset: int) -> dict[str, Any]:
    topic = settings.topics.minibatches
    reader = consumer(settings.kafka, group=f"{settings.source.group}-inspect", partition_eof=True)
    try:
        reader.assign([TopicPartition(topic, partition, offset)])
        message = reader.poll(_WAIT_S)
    finally:
        reader.close()
    error = None if message is None else message.error()
    at_end = error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001  (librdkafka's own code)
    if message is not None and at_end:
        raise ConfigError(f"{topic} partition {partition} ends at offset {message.offset()}: no mini-batch there yet")
    if message is None or error is not None:
        why = "no answer" if message is None else message.error()
        raise ConfigError(f"{topic} partition {partition} has no record from offset {offset} on ({why})")
    given = message.headers() or []
    headers = list(given.items()) if isinstance(given, dict) else given
    place = {"topic": topic, "partition": partition, "offset": message.offset()}
    if is_end(headers):
        return place | {"ends_epoch": epoch_of(headers)}
    value = message.value()
    assert value is not None, "only end records are empty"
    return place | {"wire_bytes": len(value)} | _columns(wire.decode(value))


def _columns(batch: MiniBatch) -> dict[str, Any]:
    lineage = batch.lineage
    return {
        "sequence": batch.sequence,
        "samples": len(batch),
        "sessions": batch.num_sessions,
        "watermark_ms": batch.watermark_ms,
        "fingerprint": f"{batch.fingerprint:016x}",
        "content_hash": f"{batch.content_hash:016x}",
        "event_time_ms": [int(lineage.event_time_ms.min()), int(lineage.event_time_ms.max())],
        "offsets": [int(lineage.offset.min()), int(lineage.offset.max())],
        "label_means": np.nanmean(batch.labels, axis=0).tolist(),
        "negative_rate": batch.negative_rate,
        "stages": {stage.name.lower(): int(np.count_nonzero(batch.stages == stage)) for stage in Stage},
        "groups": {
            group.group: {
                "features": list(group.keys),
                "dense": list(group.dense_names),
                "rows": group.num_rows,
                "values": group.num_values,
                "dedup_factor": round(group.dedup_factor, 4),
            }
            for group in batch.groups
        },
    }


def _checkpoint(directory: Path, step: int | None) -> dict[str, Any]:
    paths = [path for path in found(directory / CHECKPOINTS) if step is None or step_of(path) == step]
    if not paths:
        raise ConfigError(f"{directory / CHECKPOINTS} holds no checkpoint{'' if step is None else f' of step {step}'}")
    return whole(paths[0])


def _lines(directory: Path, step: int | None, last: int) -> Iterator[dict[str, Any]]:
    lines = read(directory / LEDGER, 0 if step is None else step - 1)
    chosen = lines[-last:] if step is None else [line for line in lines if line.step == step]
    if not chosen:
        raise ConfigError(f"{directory / LEDGER} holds no line{'' if step is None else f' of step {step}'}")
    for line in chosen:
        shown: dict[str, Any] = msgspec.to_builtins(line)
        shown["batches"] = [msgspec.structs.asdict(entry) for entry in line.batches]
        yield shown


def _put(shown: list[dict[str, Any]], *, as_json: bool) -> None:
    for each in shown:
        text = msgspec.json.encode(each)
        text = text if as_json else msgspec.json.format(text, indent=2)
        sys.stdout.write(f"{text.decode()}\n")
    if as_json:
        sys.stdout.write(f"{msgspec.json.encode({'event': 'summary', 'ok': True, 'shown': len(shown)}).decode()}\n")
