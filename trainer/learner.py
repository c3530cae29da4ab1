"""What learns: model, step and evaluation behind one handle, with the state that goes into a checkpoint.

Owns the seeding of each step's random numbers. Predicts, scores, then learns: the logits that are evaluated are
those from before the update.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog
import torch
from torch import Tensor

from streams.errors import InvariantError
from streams.metrics import Name
from streams.stage import Stage
from trainer.checkpoint.touched import I64, Touched
from trainer.evaluate import Evaluator
from trainer.guards import SkipGuard
from trainer.model import RecModel
from trainer.stall import StallGuard
from trainer.step import Step, StepResult, Verdict
from trainer.tensors import StepBatch

_MODEL: Final = "model."
_EVALUATOR: Final = "evaluator."
_STALL: Final = "stall."
_LOG = structlog.get_logger(__name__)


class Learner:
    """The model and everything that moves with it."""

    def __init__(
        self,
        model: RecModel,
        step: Step,
        evaluator: Evaluator,
        guard: SkipGuard,
        stall: StallGuard,
        touched: Touched | None = None,
    ) -> None:
        self._model = model
        self._step = step
        self._evaluator = evaluator
        self._guard = guard
        self._stall = stall
        self._paused: list[int] = []
        self._touched = touched or Touched({})

    @property
    def is_late(self) -> bool:
        """Whether a verdict is read one step late, because reading it at once would stall the device."""
        return self._model.device.type != "cpu"

    def expect(self, batch: StepBatch) -> None:
        """The step after the next one: what it needs from slow storage is read while the next one is computed."""
        self._model.tables.expect(batch.uses)

    def step(self, batch: StepBatch, seed: int) -> StepResult:
        """Predict, then learn."""
        self._touched.note(batch.uses.rows_X)
        torch.manual_seed(seed)
        stalled = self._stall.stalled(batch.labels_BT, batch.weights_BT)
        if stalled != self._paused:
            self._say(stalled)
        return self._step.score(batch) if stalled else self._step.run(batch)

    def _say(self, stalled: list[int]) -> None:
        self._paused = stalled
        if stalled:
            remedy = "look whether outcomes still arrive; learning goes on by itself with the first positive label"
            _LOG.warning("learning_paused", tasks_without_positives=stalled, remedy=remedy)
        else:
            _LOG.warning("learning_resumed")

    def settle(self, step: int, batch: StepBatch, result: StepResult) -> Verdict:
        """Read the verdict and score what was predicted; InvariantError after too many steps that changed nothing."""
        verdict = result.verdict()
        if verdict is Verdict.LEARNED:
            self._evaluator.update(result.logits_BT, *scored_labels(batch))
        try:
            self._guard.note(verdict)
        except InvariantError as error:
            error.add_note(f"at step {step}; `recd inspect skipped` shows what was wrong with them")
            raise
        return verdict

    def moved(self) -> Mapping[Name, int]:
        """What the tables have moved between memory and their file since the last call, by metric."""
        return self._model.tables.moved()

    def report(self) -> Mapping[str, Any]:
        """The evaluator's metrics."""
        return self._evaluator.report()

    def state(self) -> dict[str, Tensor]:
        """Flat names to tensors; the storage itself."""
        return (
            {f"{_MODEL}{name}": tensor for name, tensor in self._model.state().items()}
            | {f"{_EVALUATOR}{name}": tensor for name, tensor in self._evaluator.state().items()}
            | {f"{_STALL}{name}": tensor for name, tensor in self._stall.state().items()}
        )

    def touched(self) -> dict[str, I64]:
        """Tensor of `state` to its rows that steps have used since the last call; tensors left out may have changed."""
        return {
            f"{_MODEL}{kind}.{table}": rows_X
            for table, rows_X in self._touched.take().items()
            for kind in ("table", "table_momentum")
        }

    def load_state(self, stored: Mapping[str, Tensor]) -> None:
        """Take over a state whole."""
        self._model.load_state(_below(_MODEL, stored))
        self._evaluator.load_state(_below(_EVALUATOR, stored))
        self._stall.load_state(_below(_STALL, stored))


def scored_labels(batch: StepBatch) -> tuple[Tensor, Tensor | None]:
    """[B, T] labels that metrics speak of, NaN where there is none, and [B, 1] what each sample stands for.

    A correction is left out: its sample was scored when it first came, and would count twice.
    """
    scored_BT = batch.weights_BT > 0
    if batch.labelling.stage_B1 is not None:
        scored_BT = scored_BT & (batch.labelling.stage_B1 != int(Stage.CORRECTION))
    return torch.where(scored_BT, batch.labels_BT, torch.nan), batch.labelling.stands_for_B1


def _below(prefix: str, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in stored.items() if name.startswith(prefix)}
