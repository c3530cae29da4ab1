"""The proof that deduplication changes nothing, in three senses.

(a) In float64, logits, loss and every gradient of the deduplicated model equal those of the oracle.
(b) From one state, one float32 step with and without deduplication gives the same logits, loss, gradients
    and tables, up to the order of sums.
(c) After many steps the two have drifted apart no more than 3 times as far as two plain runs whose samples
    are permuted: rounding, and nothing else. Now and then rounding tips one gradient over a kink and one run of
    the three jumps away by itself; what is too far is therefore judged again with the samples in other orders,
    where a jump does not come back and a defect does.

A run in which the deduplicated path was not taken, or the plain one was, proves nothing and fails. Trains
models of its own; never touches one in use.

Shape suffixes: B samples, N bags, V ids, D embedding dim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from streams.events.schema import EventSchema
from streams.minibatch import MiniBatch
from trainer.config import ModelConfig, OptimizerConfig
from trainer.model import RecModel, build_model, build_plain_model
from trainer.oracle import Oracle
from trainer.step import Step, first_half
from trainer.tensors import StepBatch, to_tensors

ORACLE_RTOL, ORACLE_ATOL = 1e-9, 1e-14
STEP_RTOL, STEP_ATOL = 1e-4, 1e-5
DRIFT_FACTOR, DRIFT_FLOOR, DRIFT_ORDERS = 3.0, 1e-7, 3
COMPARED = ("logits", "losses", "gradients", "tables")


@dataclass(frozen=True, slots=True)
class ParityReport:
    """What was compared, and how far apart it was."""

    ok: bool
    reasons: tuple[str, ...]
    """Why not; empty when ok."""
    max_abs_diff: Mapping[str, float]
    """(b): logits, losses, gradients, tables."""
    oracle_max_diff: float
    """(a): largest difference relative to the largest value of its tensor."""
    drift: float
    """(c): root mean square difference of all table rows, deduplicated against plain."""
    drift_permuted: float
    """(c): the same for two plain runs with permuted samples."""
    rows: Mapping[str, tuple[int, int]]
    """Group to rows looked up with and without deduplication."""
    steps: int


@dataclass(slots=True)
class _Findings:
    """Collects differences and reasons during a run."""

    reasons: list[str] = field(default_factory=list)
    max_abs_diff: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COMPARED, 0.0))
    oracle_max_diff: float = 0.0
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)

    def compare(self, what: str, name: str, ours: Tensor, plain: Tensor) -> None:
        """(b) for one tensor."""
        if ours.shape != plain.shape:
            self.reasons.append(f"(b) {what} of {name} are {[*ours.shape]} deduplicated and {[*plain.shape]} plain")
            return
        gap = (ours - plain).abs()
        self.max_abs_diff[what] = max(self.max_abs_diff[what], float(gap.max()) if gap.numel() else 0.0)
        # Written so that a NaN on either side fails.
        if not bool((gap <= STEP_ATOL + STEP_RTOL * plain.abs()).all()):
            self.reasons.append(f"(b) {what} of {name} differ by up to {float(gap.max()):.3g}")

    def compare_oracle(self, name: str, ours: Tensor, oracle: Tensor) -> None:
        """(a) for one tensor."""
        scale = float(oracle.abs().max()) if oracle.numel() else 0.0
        gap = float((ours - oracle).abs().max()) if oracle.numel() else 0.0
        self.oracle_max_diff = max(self.oracle_max_diff, gap / scale if scale else gap)
        if not gap <= ORACLE_ATOL + ORACLE_RTOL * scale:
            self.reasons.append(f"(a) {name} differs from the oracle by {gap:.3g} where values reach {scale:.3g}")


def run_parity(
    batches: Sequence[MiniBatch],
    schema: EventSchema,
    model: ModelConfig,
    optimizer: OptimizerConfig,
    seed: int,
    *,
    steps: int = 200,
    every: int = 20,
) -> ParityReport:
    """Train the first `steps` batches with and without deduplication from one seed, and compare.

    (a) and (b) look at every `every`-th batch, (c) at the end.
    """
    batches = [batch for batch in batches if len(batch)][:steps]
    found = _Findings()
    ours, plain, permuted, twin = (build_model(schema, model, optimizer, seed) for _ in range(4))
    rng = np.random.default_rng(seed)
    for place, batch in enumerate(batches):
        deduplicated = to_tensors([batch], schema, model)
        expanded = to_tensors([batch], schema, model, deduplicated=False)
        _note_rows(found, deduplicated, expanded)
        if place % every == 0:
            _check_oracle(found, batch, schema, model, optimizer, seed, ours)
            _check_step(found, deduplicated, expanded, ours, twin, optimizer)
        Step(ours, optimizer).run(deduplicated)
        Step(plain, optimizer).run(expanded)
        shuffled = permuted_batch(batch, rng.permutation(len(batch)))
        Step(permuted, optimizer).run(to_tensors([shuffled], schema, model, deduplicated=False))
    drift, noise = _table_rms(ours, plain), _table_rms(permuted, plain)
    for _ in range(DRIFT_ORDERS - 1):
        if _is_rounding(drift, noise):
            break
        reordered = [permuted_batch(batch, rng.permutation(len(batch))) for batch in batches]
        drift, noise = _drift(reordered, schema, model, optimizer, seed, rng)
    if not _is_rounding(drift, noise):
        found.reasons.append(
            f"(c) tables drifted by {drift:.3g}, permuted plain runs by {noise:.3g}, in {DRIFT_ORDERS} orders"
        )
    _check_path(found)
    return ParityReport(
        not found.reasons, tuple(found.reasons), found.max_abs_diff, found.oracle_max_diff, drift, noise, found.rows,
        len(batches),
    )  # fmt: skip


def _check_oracle(
    found: _Findings,
    batch: MiniBatch,
    schema: EventSchema,
    model: ModelConfig,
    optimizer: OptimizerConfig,
    seed: int,
    trained: RecModel,
) -> None:
    """(a): the deduplicated path in float64, from the weights of the model in training."""
    exact = build_plain_model(schema, model, optimizer, seed)
    weights = trained.state()
    for name, tensor in exact.state().items():
        tensor.copy_(weights[name])
    tensors = to_tensors([batch], schema, model)
    first = first_half(exact, tensors)
    judged = Oracle(exact.state(), schema, model).run(batch)
    found.compare_oracle("logits", first.logits_BT, judged.logits)
    found.compare_oracle("loss", first.loss, judged.loss)
    for (name, _), grad in zip(exact.net.named_parameters(), first.dense, strict=True):
        found.compare_oracle(f"gradient of {name}", grad, judged.gradients[f"dense.{name}"])
    touched, grad_VD = row_gradients(tensors, first.lookup_ND)
    whole = torch.cat([judged.gradients[f"table.{name}"] for name in exact.tables.weights()])
    found.compare_oracle("gradient of the tables", grad_VD, whole[touched])


def _check_step(
    found: _Findings,
    deduplicated: StepBatch,
    expanded: StepBatch,
    ours: RecModel,
    twin: RecModel,
    optimizer: OptimizerConfig,
) -> None:
    """(b): gradients of both forms in one state, then a step of each on copies of it."""
    before = {name: tensor.clone() for name, tensor in ours.state().items()}
    after: list[dict[str, Tensor]] = []
    gradients = []
    for batch in (deduplicated, expanded):
        twin.load_state(before)
        first = first_half(twin, batch)
        gradients.append((first, row_gradients(batch, first.lookup_ND)[1]))
        twin.load_state(before)
        Step(twin, optimizer).run(batch)
        after.append({name: rows.clone() for name, rows in twin.tables.weights().items()})
    (mine, my_rows), (theirs, their_rows) = gradients
    found.compare("logits", "the batch", mine.logits_BT, theirs.logits_BT)
    found.compare("losses", "the batch", mine.loss, theirs.loss)
    for (name, _), one, other in zip(twin.net.named_parameters(), mine.dense, theirs.dense, strict=True):
        found.compare("gradients", name, one, other)
    found.compare("gradients", "the tables", my_rows, their_rows)
    for name in after[0]:
        found.compare("tables", name, after[0][name], after[1][name])


def _drift(
    batches: Sequence[MiniBatch],
    schema: EventSchema,
    model: ModelConfig,
    optimizer: OptimizerConfig,
    seed: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """(c) alone: how far a deduplicated and a permuted plain run end from a plain one."""
    ours, plain, permuted = (build_model(schema, model, optimizer, seed) for _ in range(3))
    for batch in batches:
        Step(ours, optimizer).run(to_tensors([batch], schema, model))
        Step(plain, optimizer).run(to_tensors([batch], schema, model, deduplicated=False))
        shuffled = permuted_batch(batch, rng.permutation(len(batch)))
        Step(permuted, optimizer).run(to_tensors([shuffled], schema, model, deduplicated=False))
    return _table_rms(ours, plain), _table_rms(permuted, plain)


def _is_rounding(drift: float, noise: float) -> bool:
    return drift <= DRIFT_FACTOR * noise + DRIFT_FLOOR  # A NaN is not.


def row_gradients(batch: StepBatch, lookup_ND: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that a batch touches, ascending, and the gradient of each: comparable across layouts of bags."""
    bag_V = torch.repeat_interleave(torch.arange(len(lookup_ND)), batch.offsets_N1.diff())
    touched, place_V = torch.unique(batch.ids_V, return_inverse=True)
    summed = lookup_ND.new_zeros(len(touched), lookup_ND.shape[1]).index_add_(0, place_V, lookup_ND[bag_V])
    return touched, summed


def permuted_batch(batch: MiniBatch, order: np.ndarray[tuple[int], np.dtype[np.int64]]) -> MiniBatch:
    """The same samples in another order; the lineage stays as it was."""
    groups = tuple(replace(group, inverse=group.inverse[order]) for group in batch.groups)
    stage = None if batch.stage is None else batch.stage[order]
    return replace(batch, labels=batch.labels[order], dense=batch.dense[order], groups=groups, stage=stage)


def _note_rows(found: _Findings, deduplicated: StepBatch, expanded: StepBatch) -> None:
    """Count what the lookups of both forms hold, from their tensors and not from a promise."""
    for group in deduplicated.counts.rows:
        ours, plain = found.rows.get(group, (0, 0))
        expansion = deduplicated.expansions[group]
        unique = deduplicated.num_samples if expansion is None else len(expansion.offsets_U1) - 1
        found.rows[group] = ours + unique, plain + expanded.num_samples
        if expanded.expansions[group] is not None or expanded.counts.rows[group] != expanded.num_samples:
            found.reasons.append(f"the plain path of group {group} was deduplicated")


def _check_path(found: _Findings) -> None:
    if all(ours == plain for ours, plain in found.rows.values()):
        found.reasons.append("no group has fewer rows than samples: the deduplicated path was not taken")


def _differences(one: RecModel, other: RecModel) -> Iterator[Tensor]:
    theirs = other.tables.weights()
    for name, rows in one.tables.weights().items():
        yield (rows - theirs[name]).double().square()


def _table_rms(one: RecModel, other: RecModel) -> float:
    squares = torch.cat([square.reshape(-1) for square in _differences(one, other)])
    return float(squares.mean().sqrt())
