"""The dense input of a step: the columns of the samples and those of the groups, expanded, in the schema's order.

Owns the order, so that a model and its checkpoint are the same wherever a column is kept. Never scales a value.

Shape suffixes: B samples, K dense columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streams.errors import InvariantError
from streams.events.schema import EventSchema
from streams.minibatch import MiniBatch

F32 = npt.NDArray[np.float32]


def dense_input(batch: MiniBatch, schema: EventSchema) -> F32:
    """[B, K], the columns of `schema.dense_names`. Raises InvariantError for a mini-batch that has others."""
    own = schema.ungrouped_dense
    parts = [(list(group.dense_names), dense) for group in batch.groups if (dense := group.expand_dense()) is not None]
    grouped = [name for names, _ in parts for name in names]
    if batch.dense.shape[1] != len(own) or sorted([*own, *grouped]) != sorted(schema.dense_names):
        raise InvariantError(
            f"a mini-batch has {batch.dense.shape[1]} dense columns of its samples and {grouped} in groups where the "
            f"schema has {own} of {schema.dense_names} outside groups; it was built under another schema"
        )
    place = {name: k for k, name in enumerate(schema.dense_names)}
    dense_BK = np.empty((len(batch.dense), len(place)), np.float32)
    for names, columns in [(own, batch.dense), *parts]:
        dense_BK[:, [place[name] for name in names]] = columns
    return dense_BK
