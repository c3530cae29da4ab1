"""The frozen configuration of the model, its optimizers and the training run.

Owns what a user may set about learning, and refuses what cannot work. Never imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from streams.errors import ConfigError
from streams.events.schema import EventSchema
from streams.strict import STRICT
from trainer.transforms import FeatureTransforms

IdMapping = Literal["hash", "modulo", "direct"]
Pooling = Literal["sum", "mean", "max", "attention", "target"]
Readout = Literal["mean", "last"]
DenseOptimizerName = Literal["adagrad", "adam"]
DeviceName = Literal["cpu", "cuda"]

MAX_TABLE_ROWS: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TableConfig:
    """One physical embedding table; features name it in the event schema and may share it."""

    __pydantic_config__: ClassVar = STRICT

    rows: int
    """Rows of the table. Hashed ids that fall on one row share it: 1,682 items in 20,000 rows cost 0.005 of
    normalized entropy, so give a hashed table 50 times its ids. With mapping `direct` the last row is kept for
    ids out of range."""
    mapping: IdMapping = "hash"
    """hash: a seeded 64-bit mix of the id, modulo `rows`. modulo: the id modulo `rows`. direct: the id is the row."""
    init_scale: float = 0.05
    """Rows start uniform in [-init_scale, init_scale]."""

    def __post_init__(self) -> None:
        if not 2 <= self.rows <= MAX_TABLE_ROWS:
            raise ConfigError(f"tables: rows = {self.rows} must lie in 2..{MAX_TABLE_ROWS}")
        if not 0.0 <= self.init_scale <= 1.0:
            raise ConfigError(f"tables: init_scale = {self.init_scale} must lie in 0..1")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionConfig:
    """The self-attention encoder over the rows of a sequence feature."""

    __pydantic_config__: ClassVar = STRICT

    heads: int = 2
    """Attention heads; must divide `model.dim`."""
    layers: int = 1
    """Encoder layers."""
    feedforward: int = 32
    """Width of the hidden layer after each attention."""
    max_length: int = 50
    """Only the newest `max_length` ids of a row are attended to."""
    readout: Readout = "mean"
    """mean: of all positions. last: the newest position. An empty row reads as exactly 0 either way."""

    def __post_init__(self) -> None:
        for name in ("heads", "layers", "feedforward", "max_length"):
            if getattr(self, name) < 1:
                raise ConfigError(f"model.attention.{name} must be at least 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """A DLRM: embedding tables, dense MLP, pooled and attended features, dot interaction, over MLP."""

    __pydantic_config__: ClassVar = STRICT

    tables: Mapping[str, TableConfig]
    """Table name to its size; every table that a feature names, and no other."""
    dim: int = 16
    """Width of every embedding row and of every vector that interacts; a multiple of 4."""
    dense_layers: tuple[int, ...] = (64,)
    """Hidden layers over the dense columns; a last layer of width `dim` follows."""
    over_layers: tuple[int, ...] = (64,)
    """Hidden layers over the interactions; a last layer with one output per task follows."""
    pooling: Mapping[str, Pooling] = field(default_factory=dict)
    """Feature name to how its row becomes one vector; features left out are averaged. sum, mean, max (of each
    column); attention: the ids of a row attend to each other (`model.attention`); target: a candidate attends to them
    (`model.candidates`)."""
    candidates: Mapping[str, str] = field(default_factory=dict)
    """Feature with pooling `target` to the feature that asks it: the item of the sample, usually."""
    transforms: Mapping[str, FeatureTransforms] = field(default_factory=dict)
    """Feature name to what happens to its ids before they are looked up."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    """The encoder of features with pooling `attention`; of pooling `target`, heads and max_length count."""

    def __post_init__(self) -> None:
        if not self.tables:
            raise ConfigError("model.tables is empty; name the table of every feature")
        if self.dim < 4 or self.dim % 4:
            raise ConfigError(f"model.dim = {self.dim} must be a positive multiple of 4")
        if self.dim % self.attention.heads:
            raise ConfigError(f"model.attention.heads = {self.attention.heads} must divide model.dim = {self.dim}")
        for name in ("dense_layers", "over_layers"):
            if any(width < 1 for width in getattr(self, name)):
                raise ConfigError(f"model.{name} holds a width below 1")
        if not self.over_layers:
            raise ConfigError("model.over_layers is empty; the over MLP needs at least one hidden layer")
        for feature, transforms in self.transforms.items():
            transforms.check(f"model.transforms.{feature}")

    def pooling_of(self, feature: str) -> Pooling:
        """How the rows of a feature become one vector each."""
        return self.pooling.get(feature, "mean")

    def is_sequence(self, feature: str) -> bool:
        """Whether the order of a feature's ids counts."""
        return self.pooling_of(feature) in {"attention", "target"}

    def one_by_one(self, feature: str) -> bool:
        """Whether each id of a row is looked up as a vector of its own, because the lookup can only sum."""
        return self.is_sequence(feature) or self.pooling_of(feature) == "max"

    def transforms_of(self, feature: str) -> FeatureTransforms:
        """What happens to the ids of a feature; nothing by default."""
        return self.transforms.get(feature, FeatureTransforms())

    def check_against(self, schema: EventSchema) -> None:
        """Raise ConfigError that names the first table or feature on which schema and model disagree."""
        used = set(schema.table_of.values())
        if not used:
            raise ConfigError("the schema has no sparse features and no histories; the model needs at least one")
        if missing := sorted(used - set(self.tables)):
            names = ", ".join(f"model.tables.{table}" for table in missing)
            users = [name for name, table in schema.table_of.items() if table == missing[0]]
            raise ConfigError(
                f"{names} {'is' if len(missing) == 1 else 'are'} missing, but features look their ids up there "
                f"({missing[0]}: {', '.join(users)}); known: {sorted(self.tables)}. Add [model.tables.{missing[0]}] "
                "with rows, or name another table in the feature"
            )
        for table in sorted(set(self.tables) - used):
            raise ConfigError(f"model.tables.{table} is used by no feature; remove it or name it in a feature")
        for name in ("pooling", "transforms", "candidates"):
            for feature in sorted(set(getattr(self, name)) - set(schema.feature_names)):
                raise ConfigError(f"model.{name}.{feature}: no such feature; known: {schema.feature_names}")
        for feature, transforms in self.transforms.items():
            self._check_direct(feature, transforms, schema.table_of[feature])
        for feature in schema.feature_names:
            self._check_candidate(feature, schema)

    def _check_candidate(self, feature: str, schema: EventSchema) -> None:
        """A feature that is asked needs one that asks, and no other does."""
        candidate, is_asked = self.candidates.get(feature), self.pooling_of(feature) == "target"
        if candidate is None:
            if is_asked:
                raise ConfigError(
                    f'model.pooling.{feature} = "target" needs model.candidates.{feature}: the name of the feature '
                    "that attends to it, usually the item of the sample"
                )
            return
        if not is_asked:
            raise ConfigError(
                f'model.candidates.{feature} does nothing without model.pooling.{feature} = "target"; set it, or '
                "remove the candidate"
            )
        if candidate not in schema.feature_names:
            raise ConfigError(f"model.candidates.{feature}: no feature {candidate!r}; known: {schema.feature_names}")
        if self.is_sequence(candidate):
            raise ConfigError(
                f"model.candidates.{feature}: {candidate} is a sequence itself; name one with pooling sum, mean or max"
            )

    def _check_direct(self, feature: str, transforms: FeatureTransforms, table: str) -> None:
        """What a transform declares must not fall on the row of ids out of range, with which it would be mixed up."""
        config = self.tables[table]
        if config.mapping != "direct":
            return
        name, last = f"model.transforms.{feature}", config.rows - 2
        if transforms.missing is not None and not 0 <= transforms.missing <= last:
            raise ConfigError(
                f"{name}.missing = {transforms.missing} has no row of its own: table {table} is direct and holds ids "
                f"0..{last}; name one of these, or raise model.tables.{table}.rows"
            )
        if transforms.bucketize is not None and len(transforms.bucketize) > last:
            raise ConfigError(
                f"{name}.bucketize gives ids 0..{len(transforms.bucketize)}, but table {table} is direct and holds "
                f"0..{last}; raise model.tables.{table}.rows to {len(transforms.bucketize) + 2}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig:
    """Row-wise Adagrad inside the table backward, and an optimizer for everything dense."""

    __pydantic_config__: ClassVar = STRICT

    learning_rate: float = 0.1
    """Of the embedding tables."""
    eps: float = 1e-8
    """Added to the root of the tables' second moments; above 0, so that a zero gradient changes nothing."""
    dense_optimizer: DenseOptimizerName = "adam"
    """adagrad never forgets, adam follows drift."""
    dense_learning_rate: float = 0.001
    """Of everything that is not a table."""
    dense_eps: float = 1e-8
    """Added to the root of the dense second moments."""
    warm_up_steps: int = 0
    """Both rates rise linearly over this many steps. Every step of the lineage counts, skipped ones too."""

    decay_steps: int = 0
    """After the warm-up both rates fall as 1 / sqrt(1 + steps / decay_steps), never below `floor`. 0: they stay."""
    floor: float = 0.1
    """With `decay_steps`: the least part of the rates that is left, so that a run without end never stops to learn."""
    clip_norm: float = 0.0
    """A sample whose loss has a gradient longer than this, over the vectors of all its features, teaches the tables as
    much less; the same with and without deduplication. 0: no limit."""

    def __post_init__(self) -> None:
        if not 0.0 < self.floor <= 1.0:
            raise ConfigError(f"optimizer.floor = {self.floor} must be above 0 and at most 1")
        if not 0.0 <= self.clip_norm < float("inf"):
            raise ConfigError(f"optimizer.clip_norm = {self.clip_norm} must be 0 (no limit) or a positive number")
        for name in ("learning_rate", "dense_learning_rate", "eps", "dense_eps"):
            if not 0.0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"optimizer.{name} = {getattr(self, name)} must be a positive number")
        for name in ("warm_up_steps", "decay_steps"):
            if getattr(self, name) < 0:
                raise ConfigError(f"optimizer.{name} must not be negative")

    def rate_factor(self, step: int) -> float:
        """Factor on both learning rates at step 0, 1, 2…: above 0 from the first step on, and for ever."""
        if step < self.warm_up_steps:
            return (step + 1) / self.warm_up_steps
        if not self.decay_steps:
            return 1.0
        return float(max(self.floor, (1 + (step - self.warm_up_steps) / self.decay_steps) ** -0.5))


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """How a training run proceeds."""

    __pydantic_config__: ClassVar = STRICT

    seed: int = 0
    """Decides every initial weight."""
    step_samples: int = 256
    """A step takes whole mini-batches as long as they hold at most this many samples together; at least one."""
    threads: int = 2
    """Threads of one operation on a CPU."""
    device: DeviceName = "cpu"
    """Where the model lives."""
    hot_rows: int = 0
    """Rows of all tables together that are in memory at once; the others are in a file, and come when a step needs
    them. At least the distinct rows of a step. What is learned is the same to the bit. 0: all are in memory."""
    cold_directory: str = ""
    """Folder of that file, on a fast disk: 5 bytes a weight. It is scratch: a checkpoint holds everything."""
    window_samples: int = 10_000
    """Samples behind each windowed metric."""
    correct_sampling: bool = True
    """Whether the model predicts for the stream as it happened where negatives were sampled out
    (`join.negative_rate`), and metrics speak of that stream. false: both are of the samples as they come."""
    max_skipped_steps: int = 10
    """More steps in a row that could not be learned than this stop the trainer."""
    stall_positives: float = 0.0
    """Learning pauses while so many positive labels of a task should have come and none has: outcomes have stopped.
    30 is reached by chance once in 10^13 stretches of labels that do not depend on each other. 0: it never pauses."""
    keep_skipped: int = 10
    """Steps that were not finite whose mini-batches are kept in `skipped` beside the checkpoints: the newest ones."""
    rank_timeout_ms: int = 600_000
    """With several ranks: one that is silent for longer than this is lost, and all stop."""

    def __post_init__(self) -> None:
        for name in ("step_samples", "threads", "window_samples", "rank_timeout_ms"):
            if getattr(self, name) < 1:
                raise ConfigError(f"train.{name} must be at least 1")
        for name in ("seed", "max_skipped_steps", "keep_skipped", "hot_rows"):
            if getattr(self, name) < 0:
                raise ConfigError(f"train.{name} must not be negative")
        if not 0.0 <= self.stall_positives < float("inf"):
            raise ConfigError(f"train.stall_positives = {self.stall_positives} must be 0 (never) or a positive number")
        if bool(self.hot_rows) != bool(self.cold_directory):
            raise ConfigError(
                "train.hot_rows and train.cold_directory go together: how many rows are in memory, and where the "
                "others are; set both or neither"
            )
        if self.hot_rows and self.device != "cpu":
            raise ConfigError('train.hot_rows is for train.device = "cpu"; remove it')
