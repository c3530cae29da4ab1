"""The architecture once more: plain torch, sample by sample, without padding, batching or deduplication.

The judge of parity, so it shares no code with the model beyond the transforms of ids, which it runs on the row of
every sample: it reads a model's flat
state, in float64, and lets autograd find every gradient. Slow on purpose. Never trains.

Shape suffixes: D embedding dim, N ids of one row, F vectors that interact, T tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streams.events.schema import EventSchema
from streams.ikjt import transform_rows
from streams.minibatch import MiniBatch
from streams.stage import Stage
from trainer.config import ModelConfig
from trainer.ids import chain_of


@dataclass(frozen=True, slots=True, eq=False)
class OracleResult:
    """What the model must arrive at, in float64."""

    logits: Tensor
    """B by T."""
    loss: Tensor
    gradients: Mapping[str, Tensor]
    """Name in the model's flat state to the gradient of the loss; tables whole, by row."""


class Oracle:
    """Computes logits, loss and all gradients of one mini-batch from a model's state."""

    def __init__(
        self, state: Mapping[str, Tensor], schema: EventSchema, model: ModelConfig, *, correct_sampling: bool = True
    ) -> None:
        self._correct_sampling = correct_sampling
        self._schema = schema
        self._model = model
        self._leaves = {
            name: tensor.detach().to("cpu", torch.float64).requires_grad_()
            for name, tensor in state.items()
            if name.startswith(("table.", "dense."))
        }

    def run(self, batch: MiniBatch) -> OracleResult:
        rows = {key: jagged for group in batch.groups for key, jagged in group.expand().items()}
        mapped = {
            key: transform_rows(jagged, chain_of(key, self._schema, self._model).steps) for key, jagged in rows.items()
        }
        columns = _dense_columns(batch, self._schema)
        logits = []
        for sample in range(len(batch)):
            ids = {key: torch.from_numpy(jagged.row(sample)) for key, jagged in mapped.items()}
            numbers = [float(columns[name][sample]) for name in self._schema.dense_names]
            logits.append(self._logits_T(torch.tensor(numbers, dtype=torch.float64), ids))
        logits_BT = torch.stack(logits)
        loss = self._loss(logits_BT, batch)
        grads = torch.autograd.grad(loss, list(self._leaves.values()), allow_unused=True, materialize_grads=True)
        return OracleResult(logits_BT.detach(), loss.detach(), dict(zip(self._leaves, grads, strict=True)))

    def _loss(self, logits_BT: Tensor, batch: MiniBatch) -> Tensor:
        """Label by label, from the definitions: no term is shared with `labelling`."""
        rate = batch.negative_rate if self._correct_sampling else 1.0
        num_tasks = batch.labels.shape[1]
        terms, weights = [], []
        for sample, labels_T in enumerate(batch.labels.tolist()):
            stage = int(batch.stages[sample])
            kept_negative = not any(label > 0.5 for label in labels_T)
            weight = 1 / rate if num_tasks > 1 and kept_negative else 1.0
            for task, label in enumerate(labels_T):
                if math.isnan(label):
                    continue
                odds = logits_BT[sample, task].exp() / (rate if num_tasks == 1 else 1.0)
                says_yes, says_no = -(odds / (1 + odds)).log(), -(1 / (1 + odds)).log()
                p = float(torch.sigmoid(logits_BT[sample, task].detach()))
                as_positive, as_negative = (1 + p) * says_yes, (1 - p) * (1 + p) * says_no
                if stage == Stage.SETTLED:
                    term = says_yes if label == 1 else says_no
                elif label == 0:
                    term = as_negative
                elif stage == Stage.CORRECTION:
                    term = as_positive
                else:
                    term = as_positive + as_negative * (rate if num_tasks == 1 else 1.0)
                terms.append(weight * term)
                weights.append(weight)
        return torch.stack(terms).sum() / sum(weights)

    def _logits_T(self, dense_K: Tensor, ids: Mapping[str, Tensor]) -> Tensor:
        """Logits of one sample from the ids of each feature."""
        vectors = [self._dense(dense_K)]
        for group in self._schema.all_groups:
            vectors += [self._tower(key, ids) for key in group.features]
        products = [vectors[i].dot(vectors[j]) for i in range(len(vectors)) for j in range(i + 1, len(vectors))]
        x = torch.cat([vectors[0], torch.stack(products)])
        mixed = self._linear(self._perceptrons(x, "dense.over.model.0"), "dense.over.model.1")
        return mixed + self._leaves["dense.linear.weight"] @ torch.cat(vectors[1:])

    def _dense(self, dense_K: Tensor) -> Tensor:
        if len(dense_K) == 0:
            return self._leaves["dense.dense.vector_D"]
        return self._perceptrons(dense_K, "dense.dense.model")

    def _tower(self, key: str, ids: Mapping[str, Tensor]) -> Tensor:
        """The vector of one feature of one sample; exactly 0 without ids."""
        table_RD = self._leaves[f"table.{self._schema.table_of[key]}"]
        rows_ND = table_RD[ids[key]]
        if len(rows_ND) == 0:
            return rows_ND.sum(0)
        match self._model.pooling_of(key):
            case "sum":
                return rows_ND.sum(0)
            case "mean":
                return rows_ND.mean(0)
            case "max":
                return rows_ND.amax(0)
            case "attention":
                return self._attend(rows_ND, f"dense.pooling.{key}")
            case "target":
                return self._ask(rows_ND, self._tower(self._model.candidates[key], ids), f"dense.pooling.{key}")

    def _ask(self, rows_ND: Tensor, candidate_D: Tensor, name: str) -> Tensor:
        """What a history answers to one candidate, head by head."""
        newest_ND = rows_ND[-self._model.attention.max_length :].flip(0)
        query_D = self._linear(candidate_D, f"{name}.query")
        key_ND, change_ND = (newest_ND @ self._leaves[f"{name}.keys_values.weight"].T).chunk(2, dim=1)
        value_ND = newest_ND + change_ND
        width = self._model.dim // self._model.attention.heads
        heads = []
        for h in range(self._model.attention.heads):
            head = slice(h * width, (h + 1) * width)
            scores = key_ND[:, head] @ query_D[head] / width**0.5
            weights = (scores + self._leaves[f"{name}.place_HL"][h, : len(newest_ND)]).exp()
            heads.append(weights / weights.sum() @ value_ND[:, head])
        return torch.cat(heads)

    def _attend(self, rows_ND: Tensor, name: str) -> Tensor:
        config = self._model.attention
        newest_ND = rows_ND[-config.max_length :].flip(0)
        x_ND = newest_ND + self._leaves[f"{name}.position_LD"][: len(newest_ND)]
        for layer in range(config.layers):
            at = f"{name}.layers.{layer}"
            x_ND = x_ND + self._linear(self._heads(x_ND, at), f"{at}.project_out")
            wide = self._linear(self._norm(x_ND, f"{at}.norm_feedforward"), f"{at}.widen").clamp(min=0)
            x_ND = x_ND + self._linear(wide, f"{at}.narrow")
        return x_ND[0] if config.readout == "last" else x_ND.mean(0)

    def _heads(self, x_ND: Tensor, at: str) -> Tensor:
        query, key, value = self._linear(self._norm(x_ND, f"{at}.norm_attention"), f"{at}.project_in").chunk(3, dim=1)
        width = self._model.dim // self._model.attention.heads
        heads = []
        for start in range(0, self._model.dim, width):
            head = slice(start, start + width)
            scores = query[:, head] @ key[:, head].T / width**0.5
            weights = scores.exp() / scores.exp().sum(1, keepdim=True)
            heads.append(weights @ value[:, head])
        return torch.cat(heads, dim=1)

    def _norm(self, x_ND: Tensor, at: str) -> Tensor:
        centred = x_ND - x_ND.mean(1, keepdim=True)
        scaled = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        return scaled * self._leaves[f"{at}.weight"] + self._leaves[f"{at}.bias"]

    def _linear(self, x: Tensor, at: str) -> Tensor:
        return x @ self._leaves[f"{at}.weight"].T + self._leaves[f"{at}.bias"]

    def _perceptrons(self, x: Tensor, at: str) -> Tensor:
        """A TorchRec MLP: a linear layer and a ReLU for as long as the state has another one."""
        layer = 0
        while f"{at}._mlp.{layer}._linear.weight" in self._leaves:
            x = self._linear(x, f"{at}._mlp.{layer}._linear").clamp(min=0)
            layer += 1
        return x


def _dense_columns(batch: MiniBatch, schema: EventSchema) -> Mapping[str, npt.NDArray[np.float32]]:
    """Name to the value of each sample, wherever the column is kept."""
    columns = dict(zip(schema.ungrouped_dense, batch.dense.T, strict=True))
    for group in batch.groups:
        if group.dense is not None:
            columns |= dict(zip(group.dense_names, group.dense[group.inverse].T, strict=True))
    return columns
