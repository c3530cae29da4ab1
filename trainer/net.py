"""The dense side of the DLRM: pooling, towers on unique rows, one expansion per group, interaction, over MLP.

Owns everything between the output of the lookup and the logits. Never looks ids up, never updates a table.
TorchRec's dense, interaction and over arches are used as they are; beside them each feature has a linear term,
so that the model starts as fast as a logistic regression and learns interactions on top.

Shape suffixes: B samples, U unique rows, N bags, D embedding dim, F features, K dense columns, L padded length,
T tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torchrec.models.dlrm import DenseArch, InteractionArch, OverArch

from streams.events.schema import EventSchema, FeatureGroup
from trainer.attention import HistoryEncoder
from trainer.config import ModelConfig
from trainer.jagged_ops import JaggedOps
from trainer.target_attention import TargetAttention
from trainer.tensors import FeatureRows, StepBatch
from trainer.window_rows import Windows


class Net(nn.Module):
    """Output of the lookup and the batch to logits."""

    def __init__(
        self,
        groups: tuple[FeatureGroup, ...],
        pooling: nn.ModuleDict,
        dense: nn.Module,
        interaction: nn.Module,
        over: nn.Module,
        linear: nn.Module,
        ops: JaggedOps,
        candidates: Mapping[str, str],
    ) -> None:
        super().__init__()
        self._groups = groups
        self._with_towers = {group.name: [key for key in group.features if key not in candidates] for group in groups}
        place_of = {
            key: (place, self._with_towers[group.name].index(key))
            for place, group in enumerate(groups)
            for key in self._with_towers[group.name]
        }
        self._candidates = {key: place_of[candidate] for key, candidate in candidates.items()}
        self._ops = ops
        self.pooling = pooling
        self.dense = dense
        self.interaction = interaction
        self.over = over
        self.linear = linear

    def forward(self, looked_up_ND: Tensor, batch: StepBatch) -> Tensor:
        return self.mix(self.sparse(looked_up_ND, batch), batch)

    def mix(self, sparse_BFD: Tensor, batch: StepBatch) -> Tensor:
        """[B, T] logits from the vectors of every sample and its dense columns."""
        dense_BD: Tensor = self.dense(batch.dense_BK.to(sparse_BFD.dtype))
        mixed_BT: Tensor = self.over(self.interaction(dense_BD, sparse_BFD))
        linear_BT: Tensor = self.linear(sparse_BFD.flatten(1))
        return mixed_BT + linear_BT

    def sparse(self, looked_up_ND: Tensor, batch: StepBatch) -> Tensor:
        """[B, F, D]: a vector of every feature for every sample."""
        # One split, not a slice each: the gradient of a slice is as large as everything that it was cut from.
        bags = torch.split(looked_up_ND, [rows.num_bags for rows in batch.features.values()])
        bags_of = dict(zip(batch.features, bags, strict=True))
        of_group = [self._group(bags_of, batch, group) for group in self._groups]
        if self._candidates:
            of_group = [
                self._with_asked(rows_BFD, group, bags_of, batch, of_group)
                for rows_BFD, group in zip(of_group, self._groups, strict=True)
            ]
        return torch.cat([rows_BFD for rows_BFD in of_group if rows_BFD is not None], dim=1)

    def _group(self, bags_of: Mapping[str, Tensor], batch: StepBatch, group: FeatureGroup) -> Tensor | None:
        """Every tower of a group on its unique rows, then one expansion to samples; None if it has only asked ones."""
        keys = self._with_towers[group.name]
        if not keys:
            return None
        rows_UFD = torch.stack([self._tower(bags_of[key], batch.features[key], key) for key in keys], dim=1)
        expansion = batch.expansions[group.name]
        if expansion is None:
            return rows_UFD
        return self._ops.expand(rows_UFD.flatten(1), expansion).view(batch.num_samples, *rows_UFD.shape[1:])

    def _with_asked(
        self,
        rows_BFD: Tensor | None,
        group: FeatureGroup,
        bags_of: Mapping[str, Tensor],
        batch: StepBatch,
        of_group: Sequence[Tensor | None],
    ) -> Tensor | None:
        """The group's vectors with the answers to its candidates at their places."""
        towers = iter(()) if rows_BFD is None else iter(torch.split(rows_BFD, 1, dim=1))
        if all(key not in self._candidates for key in group.features):
            return rows_BFD
        vectors = [
            self._answer(bags_of[key], batch, key, of_group)[:, None] if key in self._candidates else next(towers)
            for key in group.features
        ]
        return torch.cat(vectors, dim=1)

    def _answer(self, bags: Tensor, batch: StepBatch, key: str, of_group: Sequence[Tensor | None]) -> Tensor:
        """[B, D]: what a history answers to each sample's candidate."""
        rows, (group, place) = batch.features[key], self._candidates[key]
        candidates_BFD, attention = of_group[group], self.pooling[key]
        assert rows.asking is not None
        assert candidates_BFD is not None
        answer_BD: Tensor = attention(bags, candidates_BFD[:, place], rows.asking, self._ops, rows.windows)
        return answer_BD

    def _tower(self, bags: Tensor, rows: FeatureRows, key: str) -> Tensor:
        """[U, D]: one vector per unique row of a feature."""
        pooling = self.pooling[key]
        if rows.windows is not None:
            bags = self._of_windows(bags, rows.windows)
        if isinstance(pooling, HistoryEncoder):
            padded_ULD = self._ops.to_padded(bags, rows.offsets_U1, rows.longest)
            encoded_UD: Tensor = pooling(padded_ULD, rows.offsets_U1.diff())
            return encoded_UD
        pooled_UD: Tensor = pooling(bags, rows.offsets_U1)
        return pooled_UD

    def _of_windows(self, bags: Tensor, windows: Windows) -> Tensor:
        """What the pooling would have been given without windows."""
        if windows.sums is not None:
            return self._ops.window_sums(bags, windows.sums)
        assert windows.places is not None
        return self._ops.expand(bags, windows.places)


class SumPooling(nn.Module):
    """The lookup has summed each bag already."""

    def forward(self, summed_UD: Tensor, _offsets_U1: Tensor) -> Tensor:
        return summed_UD


class MeanPooling(nn.Module):
    """The sum over the number of ids; an empty row stays 0."""

    def forward(self, summed_UD: Tensor, offsets_U1: Tensor) -> Tensor:
        return summed_UD / offsets_U1.diff().clamp(min=1)[:, None]


class MaxPooling(nn.Module):
    """The greatest of each column over the ids of a row; an empty row stays 0, and sends no gradient."""

    def forward(self, values_VD: Tensor, offsets_U1: Tensor) -> Tensor:
        num_rows, dim = len(offsets_U1) - 1, values_VD.shape[1]
        every_U = torch.arange(num_rows, device=values_VD.device)
        row_V = every_U.repeat_interleave(offsets_U1.diff(), output_size=len(values_VD))
        # Where several ids are equally great, each gets as much of the gradient.
        return values_VD.new_zeros(num_rows, dim).scatter_reduce(
            0, row_V[:, None].expand(-1, dim), values_VD, "amax", include_self=False
        )


class ConstantDense(nn.Module):
    """Takes the dense arch's place where there are no dense columns: a learned vector, equal for all samples."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.vector_D = nn.Parameter(torch.full((dim,), dim**-0.5))

    def forward(self, dense_BK: Tensor) -> Tensor:
        return self.vector_D.expand(len(dense_BK), -1)


class LinearTerms(nn.Linear):
    """One linear term per feature and task.

    A pooled feature starts with a unit vector of random signs: its rows learn at full speed from the first
    step. A sequence starts at 0: its rows are items, whose own terms say nothing yet about who liked them.
    """

    def __init__(self, is_sequence: Sequence[bool], dim: int, num_tasks: int) -> None:
        super().__init__(len(is_sequence) * dim, num_tasks, bias=False)
        signs_TFD = torch.randint(0, 2, (num_tasks, len(is_sequence), dim)) * 2 - 1
        signs_TFD[:, torch.tensor(is_sequence)] = 0
        with torch.no_grad():
            self.weight.copy_(signs_TFD.flatten(1) * dim**-0.5)


def build_net(schema: EventSchema, model: ModelConfig, ops: JaggedOps) -> Net:
    """Wire the net; its initial weights come from torch's global generator."""
    num_sparse, num_dense, dim = len(schema.feature_names), len(schema.dense_names), model.dim
    interacting = dim + (num_sparse + 1) * num_sparse // 2  # the dense vector, and every pair of vectors
    ordered = [key for group in schema.all_groups for key in group.features]
    modules: dict[str, nn.Module] = {}
    for key in schema.feature_names:
        match model.pooling_of(key):
            case "sum":
                modules[key] = SumPooling()
            case "mean":
                modules[key] = MeanPooling()
            case "max":
                modules[key] = MaxPooling()
            case "attention":
                modules[key] = HistoryEncoder(dim, model.attention)
            case "target":
                modules[key] = TargetAttention(dim, model.attention.heads, model.attention.max_length)
    return Net(
        schema.all_groups,
        nn.ModuleDict(modules),
        DenseArch(num_dense, [*model.dense_layers, dim]) if num_dense else ConstantDense(dim),
        InteractionArch(num_sparse),
        OverArch(interacting, [*model.over_layers, len(schema.labels)]),
        LinearTerms([model.is_sequence(key) for key in ordered], dim, len(schema.labels)),
        ops,
        model.candidates,
    )
