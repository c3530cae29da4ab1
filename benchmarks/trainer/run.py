"""What deduplication gains in training: a step on IKJTs against the same step on plain KJT rows.

    recd bench trainer, or python -m benchmarks.trainer.run

Model, batch, optimizer and threads are the same, batches are decoded and collated beforehand, and the runs take turns.
The baseline is what a TorchRec user runs today on a CPU: a row for every sample, looked up and updated by fbgemm's
table-batched embedding. Beside it stands the same expanded batch on our own tables, which tells what the tables give
from what deduplication does. Sorting the ids, which the trainer does ahead of a step, is timed as part of ours.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.trainer import attention
from benchmarks.trainer.streams import (
    BATCH,
    OPTIMIZER,
    POOLED,
    RM2,
    RM3,
    SMALL,
    TABLE_ROWS,
    USERS,
    Laws,
    even,
    mini_batch,
    model_of,
    schema_of,
    sliding,
)
from benchmarks.turns import Result, show
from infra.clock import Clock
from trainer.config import ModelConfig
from trainer.model import RecModel, build_model
from trainer.row_uses import row_uses
from trainer.step import Step
from trainer.tables import build_fbgemm_tables, init_rows
from trainer.tensors import StepBatch, to_tensors

SEED: Final = 0
ROUNDS: Final = 15
THREADS: Final = 2
YES: Final = torch.tensor(True)
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Run = Callable[[], object]


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """One batch, three ways to train on it."""

    deduplicated: tuple[RecModel, StepBatch]
    torchrec: tuple[RecModel, StepBatch]
    expanded: tuple[RecModel, StepBatch]

    @property
    def all(self) -> tuple[tuple[RecModel, StepBatch], ...]:
        return self.deduplicated, self.torchrec, self.expanded


def arms_of(laws: Laws, sizes: I64, rows: int) -> Arms:
    """Models of their own from one seed, and the batch in both forms."""
    schema, model = schema_of(laws), model_of(laws, rows)
    batch = mini_batch(laws, sizes, SEED)
    ours = to_tensors([batch], schema, model)
    plain = to_tensors([batch], schema, model, deduplicated=False)
    fresh = partial(build_model, schema, model, OPTIMIZER, SEED)
    return Arms((fresh(), ours), (_on_fbgemm(fresh(), model), plain), (fresh(), plain))


def arms_of_windows(laws: Laws, sizes: I64, rows: int) -> Arms:
    """Windows of shared buffers, and the same rows stored whole: `deduplicated` and `expanded`, both on our tables."""
    schema, model = schema_of(laws), model_of(laws, rows)
    batch = sliding(laws, sizes, SEED)
    whole = replace(batch, groups=tuple(group.to_exact() for group in batch.groups))
    fresh = partial(build_model, schema, model, OPTIMIZER, SEED)
    ours, exact = (to_tensors([each], schema, model) for each in (batch, whole))
    plain = to_tensors([batch], schema, model, deduplicated=False)
    return Arms((fresh(), ours), (_on_fbgemm(fresh(), model), plain), (fresh(), exact))


def whole_step(model: RecModel, batch: StepBatch) -> Run:
    """Predict and learn."""
    step = Step(model, OPTIMIZER)
    return lambda: step.run(batch)


def sparse_part(model: RecModel, batch: StepBatch) -> Run:
    """From ids to the vectors of every sample, and back into the tables; nothing dense."""
    generator = torch.Generator().manual_seed(SEED)
    shape = batch.num_samples, len(batch.features), model.tables.weights()[next(iter(batch.features))].shape[1]
    grad_BFD = torch.randn(shape, generator=generator)

    def run() -> None:
        looked_up_ND = model.tables.lookup(batch.ids_V, batch.offsets_N1, batch.uses)
        leaf_ND = looked_up_ND.detach().requires_grad_()
        sparse_BFD = model.net.sparse(leaf_ND, batch)
        (grad_ND,) = torch.autograd.grad(sparse_BFD, leaf_ND, grad_BFD)
        model.tables.update(looked_up_ND, grad_ND, batch.uses, YES)

    return run


def kept_bytes(model: RecModel, batch: StepBatch) -> int:
    """What the step holds between forward and backward, up to the vectors of the samples: activations, not weights."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.net.parameters()}
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tensor.is_floating_point():
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    leaf_ND = model.tables.lookup(batch.ids_V, batch.offsets_N1, batch.uses).detach().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        sparse_BFD = model.net.sparse(leaf_ND, batch)
    held[leaf_ND.untyped_storage().data_ptr()] = leaf_ND.untyped_storage().nbytes()
    held.pop(sparse_BFD.untyped_storage().data_ptr(), None)
    return sum(held.values())


def measure(rounds: int = ROUNDS, num_samples: int = BATCH, rows: int = TABLE_ROWS) -> Iterator[Result]:
    """Every line of `recd bench trainer`; `rows` of each table."""
    torch.set_num_threads(THREADS)
    for factor in (1, 4, 8, 16):
        arms = arms_of(SMALL, even(factor, num_samples), rows)
        yield _line(f"trainer.rm1.factor{factor}.ratio", arms, whole_step, rounds)
    for factor in (8, 16):
        arms = arms_of(POOLED, even(factor, num_samples), rows)
        yield _line(f"trainer.pooled.factor{factor}.sparse_ratio", arms, sparse_part, rounds)
        yield _line(f"trainer.pooled.factor{factor}.step_ratio", arms, whole_step, rounds)
    for laws, sizes in ((RM2, (6, 7)), (RM3, (4, 4))):
        arms = arms_of(laws, np.tile(sizes, num_samples // sum(sizes)), rows)
        yield _line(f"trainer.{laws.name}.sparse_ratio", arms, sparse_part, rounds)
    arms = arms_of_windows(POOLED, even(16, num_samples), rows)
    yield _line("trainer.windows.session16.sparse_ratio", arms, sparse_part, rounds, sorts=(0, 2))
    yield _line("trainer.windows.session16.step_ratio", arms, whole_step, rounds, sorts=(0, 2))
    yield _attention(rounds, num_samples)
    for factor in (4, 8, 16):
        yield _memory(factor, num_samples, rows)


def _attention(rounds: int, num_samples: int) -> Result:
    once, copied, factor = attention.runs(num_samples, SEED)
    cpu, wall = _in_turns([once, copied], rounds)
    context = {"samples": num_samples, "factor": round(factor, 2), "session_samples": [1, attention.MOST_SAMPLES]}
    return _result("trainer.target_attention.factor8.ratio", cpu, wall, "a history for every sample", context)


def _memory(factor: int, num_samples: int, rows: int) -> Result:
    arms = arms_of(USERS, even(factor, num_samples), rows)
    ours, plain = kept_bytes(*arms.deduplicated), kept_bytes(*arms.expanded)
    ratio = round(plain / ours, 3)
    return {
        "id": f"trainer.rm1.factor{factor}.user_memory_ratio",
        "value": round(ours / 1e6, 2),
        "unit": "MB",
        "baseline": "plain rows",
        "baseline_value": round(plain / 1e6, 2),
        "ratio": ratio,
        "median_of": 1,
        "spread": [ratio, ratio],
        "context": {"samples": num_samples, "of_factor": round(ratio / factor, 3), "seed": SEED},
    }


def _line(
    name: str,
    arms: Arms,
    part: Callable[[RecModel, StepBatch], Run],
    rounds: int,
    sorts: Sequence[int] = (0,),
) -> Result:
    """`sorts`: the arms in which the sorting of ids ahead of the step is paid for."""
    runs = [part(*arm) for arm in arms.all]
    for arm in sorts:
        ids, offsets = arms.all[arm][1].ids_V.numpy(), arms.all[arm][1].offsets_N1.numpy()
        runs[arm] = partial(_both, runs[arm], partial(row_uses, ids, offsets))
    cpu, wall = _in_turns(runs, rounds)
    gc.collect()
    ours, plain = arms.deduplicated[1], arms.torchrec[1]
    context = {
        "over_expanded_on_our_tables": round(float(np.median(wall[2] / wall[0])), 3),
        "samples": ours.num_samples,
        "ids": ours.counts.ids,
        "ids_expanded": plain.counts.ids,
        "distinct_rows": ours.uses.num_rows,
    }
    return _result(name, cpu, wall, "plain KJT rows, fbgemm's tables", context)


def _result(name: str, cpu: F64, wall: F64, baseline: str, context: Mapping[str, object]) -> Result:
    """The line of the first run against the second."""
    ratios = wall[1] / wall[0]
    return {
        "id": name,
        "value": round(float(np.median(wall[0])), 2),
        "unit": "ms",
        "baseline": baseline,
        "baseline_value": round(float(np.median(wall[1])), 2),
        "ratio": round(float(np.median(ratios)), 3),
        "median_of": len(ratios),
        "spread": interval(ratios),
        "context": {
            "clock": "wall",
            "cpu_ratio": round(float(np.median(cpu[1] / cpu[0])), 3),
            "cpu_spread": interval(cpu[1] / cpu[0]),
            **context,
            "threads": THREADS,
            "seed": SEED,
            "torch": torch.__version__,
        },
    }


def _both(one: Run, other: Run) -> None:
    other()
    one()


def _in_turns(runs: Sequence[Run], rounds: int) -> tuple[F64, F64]:
    """[runs, rounds] milliseconds of CPU and of wall time, A B C A B C; each has run once before."""
    clock = Clock()
    cpu, wall = (np.zeros((len(runs), rounds)) for _ in range(2))
    for run in runs:
        run()
    for r in range(rounds):
        for k, run in enumerate(runs):
            cpu_ns, wall_ns = clock.process_ns(), clock.monotonic_ns()
            run()
            cpu[k, r] = (clock.process_ns() - cpu_ns) / 1e6
            wall[k, r] = (clock.monotonic_ns() - wall_ns) / 1e6
    return cpu, wall


def interval(ratios: F64) -> list[float]:
    """95 % bootstrap interval of the median."""
    medians = np.median(np.random.default_rng(SEED).choice(ratios, (2000, len(ratios))), axis=1)
    return [round(float(q), 3) for q in np.quantile(medians, [0.025, 0.975])]


def _on_fbgemm(model: RecModel, config: ModelConfig) -> RecModel:
    """The same model with its tables in fbgemm's table-batched embedding."""
    tables = build_fbgemm_tables(config, OPTIMIZER, torch.device("cpu"))
    init_rows(tables, config.tables, SEED)
    return RecModel(tables, model.net, model.optimizer, model.device)


if __name__ == "__main__":
    show(measure())
