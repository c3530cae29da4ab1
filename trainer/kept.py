"""Mini-batches of steps that were not finite, kept for a person: the bytes, and what in them was not a number.

    <checkpoint.directory>/skipped/step-000000000012/why.json, p3-s41.recd, …

A batch that breaks a step changes nothing, so training goes on; without a copy nobody could say later what it was,
because the topic forgets. Only the newest are kept. Repeating a step writes the same again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch

from streams import wire
from streams.events.schema import EventSchema
from streams.minibatch import MiniBatch
from trainer.dense_input import dense_input
from trainer.durable import replace_synced
from trainer.step import StepResult

WHY: Final = "why.json"
_PREFIX: Final = "step-"


class Kept:
    """The folder of one lineage."""

    def __init__(self, directory: Path, schema: EventSchema, keep: int) -> None:
        self._directory = directory
        self._schema = schema
        self._keep = keep

    def keep(self, step: int, batches: Sequence[MiniBatch], offsets: Sequence[int], result: StepResult) -> Path | None:
        """Write one step's mini-batches down; None where none are to be kept. `offsets`: theirs in the topic."""
        if not self._keep:
            return None
        folder = self._directory / f"{_PREFIX}{step:012d}"
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"p{batch.partition}-s{batch.sequence}.recd" for batch in batches]
        for name, batch in zip(names, batches, strict=True):
            (folder / name).write_bytes(wire.encode(batch))
        logits = result.logits_BT
        why = {
            "step": step,
            "cause": cause_of(batches, self._schema, logits),
            "mini_batches": [
                {"file": name, "partition": batch.partition, "offset": offset, "sequence": batch.sequence}
                for name, batch, offset in zip(names, batches, offsets, strict=True)
            ],
            "logits_not_finite": int((~torch.isfinite(logits)).sum()),
        }
        # Last and in one act: a folder without it was never completed.
        replace_synced(folder / WHY, msgspec.json.format(msgspec.json.encode(why), indent=1) + b"\n")
        for path in sorted(self._directory.glob(f"{_PREFIX}*"))[: -self._keep]:
            shutil.rmtree(path, ignore_errors=True)
        return folder


def cause_of(batches: Sequence[MiniBatch], schema: EventSchema, logits_BT: torch.Tensor) -> Mapping[str, Any]:
    """What was not finite: dense columns or labels of the batch, with the samples that have it, or the model itself."""
    bad: dict[str, int] = {}
    for batch in batches:
        # A label that is not a number is missing, and no fault.
        columns = {f"label {label.name}": np.isinf(batch.labels[:, t]) for t, label in enumerate(schema.labels)}
        finite_BK = np.isfinite(dense_input(batch, schema))
        columns |= {f"dense {name}": ~finite_BK[:, k] for k, name in enumerate(schema.dense_names)}
        for name, at in columns.items():
            if count := int(np.count_nonzero(at)):
                bad[name] = bad.get(name, 0) + count
    if bad:
        return {"samples_by_column": bad}
    if bool(torch.isfinite(logits_BT).all()):
        return {"model": "loss or a gradient overflowed, all inputs and scores are finite: lower the learning rates"}
    return {"model": "scores are not finite though all inputs are: weights have grown without bound; rewind"}


def kept_steps(directory: Path) -> list[dict[str, Any]]:
    """What is kept, oldest first."""
    found = [path / WHY for path in sorted(directory.glob(f"{_PREFIX}*"))]
    return [msgspec.json.decode(path.read_bytes()) | {"path": str(path.parent)} for path in found if path.exists()]
