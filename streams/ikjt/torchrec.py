"""Feature groups as TorchRec's KeyedJaggedTensor, and back. The only module that knows its layout.

Owns both of its forms, plain and variable-batch, and takes groups in either of ours. Import it late and only where
tensors are wanted: TorchRec takes seconds to load, and nothing else about IKJT needs it.

Ids are int64 in every tensor, so that no batch differs from another in dtype. As soon as one feature is weighted,
the others carry weights of 1.0, because a KeyedJaggedTensor has weights for all of its values or for none. Batches
without samples can be converted, but TorchRec's modules fail on them: skip such a step. Dense columns of a group are
not part of either form. What is lost so (width of ids, who was weighted, windows, dense columns), `from_kjt` puts back
when it is given the layouts of the groups.

What TorchRec would compute from the lengths when it is first asked, and on a device wait for, is known here and given
along: batch size, rows, values and places per key. So the way to a device has no wait in it:

    to_vbe(groups).pin_memory().to(device, non_blocking=True)

One care is left to the caller: `KeyedJaggedTensor.record_stream` forgets the inverse indices. Where a tensor is used
on another stream than the one it was copied on, call it for `kjt.inverse_indices()[1]` too.

Shape suffixes: B samples, K keys, U distinct rows of a group, V values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.layout import FeatureLayout, GroupLayout
from streams.ikjt.windows import Group

F32 = npt.NDArray[np.float32]


def to_kjt(groups: Sequence[Group], keys: Sequence[str] | None = None) -> KeyedJaggedTensor:
    """The plain form: B rows for every key. `keys` gives their order, or leaves some out."""
    num_samples = _num_samples(groups)
    features = _chosen({key: rows for group in groups for key, rows in group.expand().items()}, keys)
    return KeyedJaggedTensor(stride=num_samples, **_parts(features))


def to_vbe(groups: Sequence[Group], keys: Sequence[str] | None = None) -> KeyedJaggedTensor:
    """TorchRec's variable-batch form: the U distinct rows of every key, and which one each sample uses.

    `keys` gives their order, or leaves some out. Rows of a partial group are copied out of its buffers: TorchRec has
    no form for windows.

    The number of rows is always given per key, even where all groups have the same one: otherwise the layout of a
    batch, and with it what ranks exchange, would depend on its data.
    """
    num_samples = _num_samples(groups)
    features = _chosen({key: rows for group in groups for key, rows in group.features.items()}, keys)
    inverse_of = {key: group.inverse for group in groups for key in group.keys}
    inverse = np.stack([inverse_of[key] for key in features]).astype(np.int64)  # [K, B]
    rows = [each.num_rows for each in features.values()]
    return KeyedJaggedTensor(
        stride=num_samples,
        stride_per_key=rows,
        stride_per_key_per_rank=[[each] for each in rows],
        inverse_indices=(list(features), torch.from_numpy(inverse)),
        **_parts(features),
    )


@overload
def from_kjt(kjt: KeyedJaggedTensor, groups: Mapping[str, Sequence[str]] | None = None) -> tuple[Ikjt, ...]: ...


@overload
def from_kjt(
    kjt: KeyedJaggedTensor,
    groups: Sequence[GroupLayout],
    session_id: npt.NDArray[Any] | None = None,
    dense: Mapping[str, F32] | None = None,
) -> tuple[Group, ...]: ...


def from_kjt(
    kjt: KeyedJaggedTensor,
    groups: Mapping[str, Sequence[str]] | Sequence[GroupLayout] | None = None,
    session_id: npt.NDArray[Any] | None = None,
    dense: Mapping[str, F32] | None = None,
) -> tuple[Group, ...]:
    """Feature groups of either form, deduplicated. Waits for the device if the tensors are on one.

    `groups` is name to keys, or the layouts of the groups, which also say what a KeyedJaggedTensor cannot; without it
    each key is its own group. Partial ones need `session_id` [B], ones with dense columns `dense`: group to [B, K].

    Trusts nothing: raises ValueError that names key and row for lengths, inverse indices or weights that do not fit.
    """
    samples = _samples_of(kjt)
    if groups is None:
        groups = {key: (key,) for key in samples}
    keys_of = groups if isinstance(groups, Mapping) else {layout.group: tuple(layout.features) for layout in groups}
    unknown = [key for keys in keys_of.values() for key in keys if key not in samples]
    if unknown:
        raise ValueError(f"no key {unknown[0]} in the KeyedJaggedTensor; it has {', '.join(samples)}")
    if isinstance(groups, Mapping):
        return tuple(deduplicate(name, {key: samples[key] for key in keys}) for name, keys in groups.items())
    return tuple(
        layout.build(
            {key: _restored(key, samples[key], form) for key, form in layout.features.items()},
            session_id,
            None if dense is None else dense.get(layout.group),
        )
        for layout in groups
    )


def _parts(features: Mapping[str, Jagged]) -> dict[str, Any]:
    """What both forms have: keys, values, lengths, weights, and what TorchRec would count of them."""
    values_per_key = [len(rows.values) for rows in features.values()]
    return {
        "keys": list(features),
        "values": _values(features.values()),
        "lengths": _lengths(features.values()),
        "weights": _weights(features.values()),
        "length_per_key": values_per_key,
        "offset_per_key": np.cumsum([0, *values_per_key]).tolist(),
        "index_per_key": {key: k for k, key in enumerate(features)},
    }


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
    rows_of = _rows_of(kjt)
    if kjt.inverse_indices_or_none() is not None:
        keys, indices = kjt.inverse_indices()
        inverse_KB = indices.cpu().numpy()
        if sorted(keys) != sorted(rows_of) or inverse_KB.ndim != 2 or len(inverse_KB) != len(keys):
            raise ValueError(f"inverse indices {list(inverse_KB.shape)} of {keys} for keys {list(rows_of)}")
        for key, inverse in zip(keys, inverse_KB, strict=True):
            outside = np.flatnonzero((inverse < 0) | (inverse >= rows_of[key].num_rows))
            if len(outside):
                b = int(outside[0])
                raise ValueError(f"key {key}: sample {b} uses row {inverse[b]} of {rows_of[key].num_rows}")
            rows_of[key] = rows_of[key].take(inverse)
    num_samples = {key: rows.num_rows for key, rows in rows_of.items()}
    if len(set(num_samples.values())) > 1:
        raise ValueError(f"keys have different numbers of samples, and no inverse says which: {num_samples}")
    return rows_of


def _rows_of(kjt: KeyedJaggedTensor) -> dict[str, Jagged]:
    """Key to the rows that are stored, after checking that lengths, values and weights fit."""
    keys, num_rows = kjt.keys(), kjt.stride_per_key()
    if len(set(keys)) < len(keys):
        raise ValueError(f"keys must be unique, not {keys}")
    values, lengths = kjt.values().cpu().numpy(), kjt.lengths().cpu().numpy().astype(np.int64)
    weights = None if kjt.weights_or_none() is None else kjt.weights().cpu().numpy()
    if len(lengths) != sum(num_rows):
        raise ValueError(f"{len(lengths)} lengths for {len(keys)} keys of {num_rows} rows; each row needs one")
    bounds = np.cumsum([0, *num_rows])
    for k, key in enumerate(keys):
        own = lengths[bounds[k] : bounds[k + 1]]
        wrong = np.flatnonzero((own < 0) | (own > len(values)))
        if len(wrong):
            r = int(wrong[0])
            raise ValueError(f"key {key}: row {r} has length {own[r]}; there are {len(values)} values in all")
    if lengths.sum() != len(values) or (weights is not None and weights.shape != values.shape):
        raise ValueError(
            f"lengths add up to {lengths.sum()}, but there are {len(values)} values"
            + ("" if weights is None else f" and {len(weights)} weights")
        )
    offsets = offsets_of(lengths)
    rows_of = {}
    for k, key in enumerate(keys):
        ends = offsets[bounds[k] : bounds[k + 1] + 1]
        part = slice(ends[0], ends[-1])
        rows_of[key] = Jagged(values[part], ends - ends[0], None if weights is None else weights[part])
        rows_of[key].validate(f"key {key}")
    return rows_of


def _restored(key: str, rows: Jagged, form: FeatureLayout) -> Jagged:
    """Ids as wide and weights as there as the layout says; ValueError where that would lose something."""
    values = rows.values.astype(form.dtype)
    changed = np.flatnonzero(values != rows.values)
    if len(changed):
        raise ValueError(f"key {key}: id {rows.values[changed[0]]} is no {form.dtype}")
    if form.weighted:
        return Jagged(values, rows.offsets, _weights_or_ones(rows))
    if rows.weights is not None and np.any(rows.weights != 1):
        r = int(np.searchsorted(rows.offsets, np.argmax(rows.weights != 1), side="right")) - 1
        raise ValueError(f"key {key}: is not weighted by its layout, but row {r} has a weight other than 1.0")
    return Jagged(values, rows.offsets)


def _num_samples(groups: Sequence[Group]) -> int:
    """B, after checking that the groups are valid and go together: TorchRec checks nothing."""
    if not groups:
        raise ValueError("no feature groups: a KeyedJaggedTensor needs at least one key")
    for group in groups:
        group.validate()
    keys = [key for group in groups for key in group.keys]
    twice = {key for key, count in Counter(keys).items() if count > 1}
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
