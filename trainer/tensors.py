"""Mini-batches to the tensors of one step.

Owns the joining of mini-batches, whose ids become table rows once per distinct row, and the layout of the one lookup:
the bags of every feature one after the other, a bag per row for pooled features, a bag per id for sequences.
Never looks anything up.

Shape suffixes: B samples, K dense columns, T tasks, U unique rows, N bags, V ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streams.errors import ConfigError, InvariantError
from streams.events.schema import EventSchema, FeatureGroup
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.windows import Group, PartialIkjt
from streams.minibatch import MiniBatch
from trainer.attention_plan import plan_attention
from trainer.config import ModelConfig
from trainer.dense_input import dense_input
from trainer.ids import chain_of, first_rows, to_table_rows
from trainer.jagged_ops import Expansion
from trainer.labelling import Labelling, labelling_of
from trainer.row_uses import RowUses, row_uses
from trainer.target_attention import Asking, asking_of
from trainer.window_rows import WindowRows, Windows, join_windows, window_sums_of

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRows:
    """The rows of one feature; its bags follow those of the feature before it in the output of the lookup."""

    num_bags: int
    """U for a feature that the lookup sums, else the number of its ids."""
    offsets_U1: Tensor
    """Row u has ids `offsets_U1[u]..offsets_U1[u + 1]` of the feature; newest first where it is a sequence."""
    longest: int
    """Ids of the longest row: the padded length of a sequence."""
    windows: Windows | None = None
    """Where the bags are of buffers, one for each of their ids, and the rows are windows of them."""
    asking: Asking | None = None
    """Who asks which row, where it is candidates that attend to it; its rows are then those of the plan."""

    def to(self, device: torch.device) -> FeatureRows:
        return replace(
            self,
            offsets_U1=self.offsets_U1.to(device, non_blocking=True),
            windows=self.windows and self.windows.to(device),
            asking=self.asking and self.asking.to(device),
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """What the step will look up, known on the host. `expanded` is what the same step costs without deduplication."""

    rows: Mapping[str, int]
    """Group to rows: U where it is deduplicated, B where it is not."""
    ids: int
    """Ids looked up."""
    ids_expanded: int
    """Ids of all samples."""
    out_of_range: Mapping[str, int]
    """Table to ids that fell on its declared row, counted once per sample."""
    missing: Mapping[str, int]
    """Feature to samples whose row was empty and became the declared one."""


@dataclass(frozen=True, slots=True, eq=False)
class StepBatch:
    """One step's input: one or more mini-batches as tensors."""

    labels_BT: Tensor
    """0 where the label is missing."""
    weights_BT: Tensor
    """1 where there is a label, 0 where it is missing."""
    dense_BK: Tensor
    ids_V: Tensor
    """Rows of the arena that holds all tables."""
    offsets_N1: Tensor
    """Bag n looks up `ids_V[offsets_N1[n]:offsets_N1[n + 1]]`."""
    uses: RowUses
    """The same by rows; stays on the host."""
    features: Mapping[str, FeatureRows]
    expansions: Mapping[str, Expansion | None]
    """Group to its expansion; None where every sample has a row of its own, in order."""
    counts: Counts
    labelling: Labelling = field(default_factory=Labelling)

    @property
    def num_samples(self) -> int:
        return len(self.labels_BT)

    def to(self, device: torch.device) -> StepBatch:
        """The same batch on a device; itself where it is there already."""
        if self.labels_BT.device == device:
            return self
        names = ("labels_BT", "weights_BT", "dense_BK", "ids_V", "offsets_N1")
        moved = {name: getattr(self, name).to(device, non_blocking=True) for name in names}
        features = {key: rows.to(device) for key, rows in self.features.items()}
        expansions = {key: each and each.to(device) for key, each in self.expansions.items()}
        labelling = self.labelling.to(device)
        return replace(self, **moved, features=features, expansions=expansions, labelling=labelling)


def to_tensors(
    batches: Sequence[MiniBatch],
    schema: EventSchema,
    model: ModelConfig,
    *,
    deduplicated: bool = True,
    correct_sampling: bool = True,
) -> StepBatch:
    """The mini-batches of one step, joined in the given order.

    `deduplicated=False` expands every row to its samples first, and transforms each one: what a trainer without
    IKJTs would do, and the baseline of parity and benchmarks. `correct_sampling` is `TrainConfig`'s.
    """
    if not batches:
        raise InvariantError("a step needs at least one mini-batch")
    builder = _LookupBuilder(schema, model)
    expansions: dict[str, Expansion | None] = {}
    for place, group in enumerate(schema.all_groups):
        chains = {key: chain_of(key, schema, model) for key in group.features}
        parts = []
        for batch in batches:
            _check_group(part := batch.groups[place], group)
            mapped = to_table_rows(part if deduplicated else _expanded(part), chains)
            builder.note_missing(mapped.missing)
            parts.append(mapped.group)
        features, inverse_B = _join(parts, group)
        expansions[group.name] = _expansion(inverse_B, next(iter(features.values())).num_rows)
        for key, rows in features.items():
            builder.add(group.name, key, rows, inverse_B)
    ids_V, offsets_N1 = np.concatenate(builder.ids), offsets_of(np.concatenate(builder.lengths))
    labels_BT = np.concatenate([batch.labels for batch in batches]).astype(np.float32, copy=False)
    missing = np.isnan(labels_BT)
    return StepBatch(
        labels_BT=torch.from_numpy(np.where(missing, np.float32(0), labels_BT)),
        weights_BT=torch.from_numpy((~missing).astype(np.float32)),
        dense_BK=torch.from_numpy(np.concatenate([dense_input(batch, schema) for batch in batches])),
        ids_V=torch.from_numpy(ids_V),
        offsets_N1=torch.from_numpy(offsets_N1),
        uses=row_uses(ids_V, offsets_N1),
        features=builder.features,
        expansions=expansions,
        counts=builder.counts(),
        labelling=labelling_of(batches, labels_BT, correct_sampling=correct_sampling),
    )


class _LookupBuilder:
    """Collects the bags of one feature after the other."""

    def __init__(self, schema: EventSchema, model: ModelConfig) -> None:
        self._table_of = schema.table_of
        self._model = model
        self._first_row = first_rows(model.tables)
        self._rows: dict[str, int] = {}
        self._ids_expanded = 0
        self._out_of_range: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self.ids: list[I64] = []
        self.lengths: list[I64] = []
        self.features: dict[str, FeatureRows] = {}

    def note_missing(self, missing: Mapping[str, int]) -> None:
        """Samples of one mini-batch whose row became the declared one."""
        for key, samples in missing.items():
            self._missing[key] = self._missing.get(key, 0) + samples

    def add(self, group: str, key: str, rows: Jagged | WindowRows, inverse_B: I64) -> None:
        """Append the bags of one feature, whose ids are rows of its table."""
        table = self._table_of[key]
        config = self._model.tables[table]
        if config.mapping == "direct":
            # No id in range is the declared row.
            before = np.concatenate([[0], np.cumsum(rows.values == config.rows - 1)])
            start = rows.start if isinstance(rows, WindowRows) else rows.offsets[:-1]
            per_row = before[start + rows.lengths] - before[start]
            self._out_of_range[table] = self._out_of_range.get(table, 0) + int(per_row[inverse_B].sum())
        self._rows[group] = rows.num_rows
        self._ids_expanded += int(rows.lengths[inverse_B].sum())
        asking = None
        if self._model.pooling_of(key) == "target":
            plan = plan_attention(rows.lengths, inverse_B)
            asking, rows = asking_of(plan, len(inverse_B)), rows.take(plan.row_K)
        lengths, windows = rows.lengths, None
        if isinstance(rows, WindowRows):
            bags = np.ones(len(rows.values), np.int64)
            windows = self._windows(key, rows)
        else:
            rows = newest_first(rows) if self._model.is_sequence(key) else rows
            bags = np.ones(len(rows.values), np.int64) if self._model.one_by_one(key) else lengths
        offsets_U1 = torch.from_numpy(offsets_of(lengths))
        self.features[key] = FeatureRows(len(bags), offsets_U1, int(lengths.max(initial=0)), windows, asking)
        self.ids.append(rows.values + self._first_row[table])
        self.lengths.append(bags)

    def _windows(self, key: str, rows: WindowRows) -> Windows:
        if not self._model.one_by_one(key):
            return Windows(sums=window_sums_of(rows))
        places = rows.places(newest_first=self._model.is_sequence(key))
        return Windows(places=expansion_of(places, len(rows.values)))

    def counts(self) -> Counts:
        ids = sum(len(ids) for ids in self.ids)
        return Counts(self._rows, ids, self._ids_expanded, self._out_of_range, self._missing)


def newest_first(rows: Jagged) -> Jagged:
    """Each row in reverse, so that place j means j from the end whatever the window's start."""
    # A row that ends at e and begins at b holds at place v what stood at b + e - 1 - v.
    ends = np.repeat(rows.offsets[:-1] + rows.offsets[1:] - 1, rows.lengths)
    return Jagged(rows.values[ends - np.arange(len(ends))], rows.offsets)


def _check_group(part: Group, group: FeatureGroup) -> None:
    """Refuse what cannot be trained on, in words."""
    if part.group != group.name or part.keys != group.features:
        raise InvariantError(
            f"a mini-batch has group {part.group} of {part.keys} where the schema has {group.name} of "
            f"{group.features}; it was built under another schema"
        )
    if part.dense_names != group.dense:
        raise InvariantError(
            f"a mini-batch has dense columns {part.dense_names} in group {part.group} where the schema has "
            f"{group.dense}; it was built under another schema"
        )
    rows = part.buffers if isinstance(part, PartialIkjt) else part.features
    for key, each in rows.items():
        if each.weights is not None:
            raise ConfigError(f"feature {key}: weighted ids cannot be pooled yet; drop its weights")


def _expanded(group: Group) -> Ikjt:
    """The same samples with a row each."""
    everyone = np.arange(group.num_samples, dtype=np.int32)
    return Ikjt(group.group, group.expand(), everyone, group.expand_dense(), group.dense_names)


def _join(parts: Sequence[Group], group: FeatureGroup) -> tuple[Mapping[str, Jagged | WindowRows], I64]:
    """Rows and inverse of one group over all mini-batches; rows that repeat across mini-batches stay apart."""
    first = np.cumsum([0] + [part.num_rows for part in parts])
    inverse_B = np.concatenate([part.inverse + start for part, start in zip(parts, first, strict=False)])
    if any(isinstance(part, PartialIkjt) for part in parts):
        return {key: join_windows(parts, key) for key in group.features}, inverse_B
    return {key: Jagged.concat([part.features[key] for part in parts]) for key in group.features}, inverse_B


def _expansion(inverse_B: I64, num_rows: int) -> Expansion | None:
    """None for the identity; otherwise the inverse and its sorted form."""
    if num_rows == len(inverse_B) and np.array_equal(inverse_B, np.arange(num_rows)):
        return None
    return expansion_of(inverse_B, num_rows)


def expansion_of(inverse_B: I64, num_rows: int) -> Expansion:
    """The inverse and its sorted form."""
    clustered = bool(np.all(inverse_B[1:] >= inverse_B[:-1]))
    order_B = np.arange(len(inverse_B)) if clustered else np.argsort(inverse_B, kind="stable")
    offsets_U1 = offsets_of(np.bincount(inverse_B, minlength=num_rows))
    return Expansion(torch.from_numpy(inverse_B), torch.from_numpy(order_B), torch.from_numpy(offsets_U1))
