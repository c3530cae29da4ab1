"""What a trainer is built from: its whole configuration, how one run differs, and where things lie in its directory."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from streams.errors import ConfigError
from streams.events.schema import EventSchema
from streams.kafka.client import KafkaConfig
from trainer.checkpoint.config import CheckpointConfig
from trainer.config import ModelConfig, OptimizerConfig, TrainConfig
from trainer.source_config import SourceConfig

CHECKPOINTS: Final = "checkpoints"
LEDGER: Final = "ledger"
SKIPPED: Final = "skipped"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerConfig:
    """Everything a trainer is built from."""

    kafka: KafkaConfig
    topic: str
    """The mini-batch topic."""
    schema: EventSchema
    model: ModelConfig
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    source: SourceConfig = field(default_factory=SourceConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    def __post_init__(self) -> None:
        if self.checkpoint.copy == "touched" and self.train.hot_rows:
            raise ConfigError(
                'checkpoint.copy = "touched" keeps a copy of all tables in memory, where train.hot_rows says that they '
                'do not fit; set it to "whole", or train.hot_rows to 0'
            )

    @property
    def directory(self) -> Path:
        """Of the lineage."""
        return Path(self.checkpoint.directory)

    def weights_config(self) -> dict[str, Any]:
        """What must be equal for a checkpoint's weights to mean the same, as plain JSON values."""
        model = asdict(self.model)
        # Only what is set: a key that this version adds and nobody uses must not orphan checkpoints.
        stated = {feature: each.stated() for feature, each in self.model.transforms.items()}
        model["transforms"] = {feature: each for feature, each in stated.items() if each}
        for key in ("transforms", "candidates"):
            if not model[key]:
                del model[key]
        optimizer = asdict(self.optimizer)
        if not self.optimizer.clip_norm:
            del optimizer["clip_norm"]
        if not self.optimizer.decay_steps:
            del optimizer["decay_steps"], optimizer["floor"]
        parts = {"model": model, "optimizer": optimizer, "train": {"seed": self.train.seed}}
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(parts))
        return plain


@dataclass(frozen=True, kw_only=True, slots=True)
class Switches:
    """How a run differs from the ordinary one."""

    exit_at_end: bool = False
    end_epoch: int = 0
    """With `exit_at_end`: the end records of this epoch or a later one count."""
    max_steps: int | None = None
    from_step: int | None = None
    """Go back to the checkpoint of this step, and on from there in live order; what came after it is set aside."""
    without_ledger: bool = False
    """The audit's control, which must fail it: begin at the group's committed offsets instead of the checkpoint's."""
