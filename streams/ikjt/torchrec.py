"""Feature groups as TorchRec's KeyedJaggedTensor, and back. The only module that knows its layout.

Owns both of its forms, plain and variable-batch, and takes groups in either of ours. Import it late and only where
tensors are wanted: TorchRec takes seconds to load, and nothing else about IKJT needs it.

Ids are int64 in every tensor, so that no batch differs from another in dtype. As soon as one feature is weighted,
the others carry weights of 1.0, because a KeyedJaggedTensor has weights for all of its values or for none. Batches
without samples can be converted, but TorchRec's modules fail on them: skip such a step. Dense columns of a group are
not part of either form.

Shape suffixes: B samples, K keys, U distinct rows of a group, V values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.windows import Group

F32 = npt.NDArray[np.float32]


def to_kjt(groups: Sequence[Group], keys: Sequence[str] | None = None) -> KeyedJaggedTensor:
    """The plain form: B rows for every key. `keys` gives their order, or leaves some out."""
    num_samples = _num_samples(groups)
    features = _chosen({key: rows for group in groups for key, rows in group.expand().items()}, keys)
    return KeyedJaggedTensor(
        keys=list(features),
        values=_values(features.values()),
        lengths=_lengths(features.values()),
        weights=_weights(features.values()),
        stride=num_samples,
    )


def to_vbe(groups: Sequence[Group], keys: Sequence[str] | None = None) -> KeyedJaggedTensor:
    """TorchRec's variable-batch form: the U distinct rows of every key, and which one each sample uses.

    `keys` gives their order, or leaves some out. Rows of a partial group are copied out of its buffers: TorchRec has
    no form for windows.

    The number of rows is always given per key, even where all groups have the same one: otherwise the layout of a
    batch, and with it what ranks exchange, would depend on its data.
    """
    _num_samples(groups)
    features = _chosen({key: rows for group in groups for key, rows in group.features.items()}, keys)
    inverse_of = {key: group.inverse for group in groups for key in group.keys}
    inverse = np.stack([inverse_of[key] for key in features]).astype(np.int64)  # [K, B]
    return KeyedJaggedTensor(
        keys=list(features),
        values=_values(features.values()),
        lengths=_lengths(features.values()),
        weights=_weights(features.values()),
        stride_per_key_per_rank=[[rows.num_rows] for rows in features.values()],
        inverse_indices=(list(features), torch.from_numpy(inverse)),
    )


def from_kjt(kjt: KeyedJaggedTensor, groups: Mapping[str, Sequence[str]] | None = None) -> tuple[Ikjt, ...]:
    """Feature groups of either form, deduplicated. `groups` is name to keys; without it each key is its own group."""
    samples = _samples_of(kjt)
    chosen = {key: (key,) for key in samples} if groups is None else groups
    unknown = [key for keys in chosen.values() for key in keys if key not in samples]
    if unknown:
        raise ValueError(f"no key {unknown[0]} in the KeyedJaggedTensor; it has {', '.join(samples)}")
    return tuple(deduplicate(name, {key: samples[key] for key in keys}) for name, keys in chosen.items())


def _chosen(features: dict[str, Jagged], keys: Sequence[str] | None) -> dict[str, Jagged]:
    """The features of these keys, in this order."""
    if keys is None:
        return features
    unknown = [key for key in keys if key not in features]
    if unknown or not keys or len(set(keys)) < len(keys):
        raise ValueError(f"keys must be different ones of {', '.join(features)}, at least one, not {list(keys)}")
    return {key: features[key] for key in keys}


def _samples_of(kjt: KeyedJaggedTensor) -> dict[str, Jagged]:
    """Key to B rows."""
    values = kjt.values().cpu().numpy()
    lengths = kjt.lengths().cpu().numpy()
    weights = None if kjt.weights_or_none() is None else kjt.weights().cpu().numpy()
    inverse_of = {}
    if kjt.inverse_indices_or_none() is not None:
        keys, inverse = kjt.inverse_indices()
        inverse_of = dict(zip(keys, inverse.cpu().numpy(), strict=True))
    samples: dict[str, Jagged] = {}
    row, value = 0, 0
    for key, num_rows in zip(kjt.keys(), kjt.stride_per_key(), strict=True):
        offsets = offsets_of(lengths[row : row + num_rows])
        end = value + int(offsets[-1])
        rows = Jagged(values[value:end], offsets, None if weights is None else weights[value:end])
        samples[key] = rows.take(inverse_of[key]) if key in inverse_of else rows
        row, value = row + num_rows, end
    return samples


def _num_samples(groups: Sequence[Group]) -> int:
    """B, after checking that the groups go together."""
    if not groups:
        raise ValueError("no feature groups: a KeyedJaggedTensor needs at least one key")
    keys = [key for group in groups for key in group.keys]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise ValueError(f"key {min(twice)} is in two groups; a KeyedJaggedTensor would keep only one of them")
    num_samples = {group.group: group.num_samples for group in groups}
    if len(set(num_samples.values())) > 1:
        raise ValueError(f"groups of different batches: samples are {num_samples}")
    return groups[0].num_samples


def _values(features: Iterable[Jagged]) -> torch.Tensor:
    """[V]."""
    return torch.from_numpy(np.concatenate([rows.values for rows in features], dtype=np.int64))


def _lengths(features: Iterable[Jagged]) -> torch.Tensor:
    """Rows of the first key, then of the second, and so on."""
    return torch.from_numpy(np.concatenate([rows.lengths for rows in features]))


def _weights(features: Iterable[Jagged]) -> torch.Tensor | None:
    """[V], or None if no feature is weighted."""
    rows = list(features)
    if all(one.weights is None for one in rows):
        return None
    return torch.from_numpy(np.concatenate([_weights_or_ones(one) for one in rows]))


def _weights_or_ones(rows: Jagged) -> F32:
    return np.ones(len(rows.values), np.float32) if rows.weights is None else rows.weights
