"""Feature groups as a plain dict of named NumPy arrays, and back. Nothing is copied, nothing is pickled.

Owns the names. Group g of a batch, from 0:

    g/group                    its name, as a string without dimensions
    g/inverse                  [B] int32
    g/features/KEY/values      [V] int32 or int64, and /offsets [U + 1], and /weights [V] where it is weighted
    g/buffers/KEY/...          the same with P buffers in place of U rows, in the partial form;
    g/start, g/length          [U] int32, its windows
    g/dense, g/dense_names     [U, K] float32 and [K], where the group has dense columns

So a file is `np.savez(path, **to_arrays(groups), allow_pickle=False)` and `from_arrays(np.load(path))`, whose
`allow_pickle` is False anyway. Features keep the order in which they stand in the dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.windows import Group, PartialIkjt

Arrays = Mapping[str, npt.NDArray[Any]]

_ROWS: Final = ("features", "buffers")
_PARTS: Final = ("values", "offsets", "weights")


def to_arrays(groups: Sequence[Group], prefix: str = "") -> dict[str, npt.NDArray[Any]]:
    """Name to array, every name behind `prefix`. Arrays are those of the groups, not copies."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for g, group in enumerate(groups):
        arrays |= {f"{prefix}{g}/{name}": array for name, array in _of_group(group).items()}
    return arrays


def from_arrays(arrays: Arrays, prefix: str = "") -> tuple[Group, ...]:
    """The groups whose names begin with `prefix`, in order.

    Raises ValueError for names that are missing or that no group has, and for groups that are not valid.
    """
    taken = {name: arrays[name] for name in arrays if name.startswith(prefix)}
    groups: list[Group] = []
    while (named := taken.pop(f"{prefix}{len(groups)}/group", None)) is not None:
        begin = f"{prefix}{len(groups)}/"
        own = {name.removeprefix(begin): taken.pop(name) for name in list(taken) if name.startswith(begin)}
        groups.append(_group(text_of(named, f"{begin}group"), own, begin))
    if taken:
        raise ValueError(f"no group has an array {min(taken)}; {len(groups)} groups were found")
    num_samples = {group.group: group.num_samples for group in groups}
    if len(num_samples) < len(groups) or len(set(num_samples.values())) > 1:
        raise ValueError(f"groups do not go together: samples are {num_samples}")
    return tuple(groups)


def text_of(array: npt.NDArray[Any], name: str) -> str:
    """The string of an array without dimensions."""
    if array.dtype.kind != "U" or array.shape != ():
        raise ValueError(f"{name} must be one string, not {array.dtype} of shape {array.shape}")
    return str(array)


def as_text(text: str) -> npt.NDArray[np.str_]:
    """One string as an array."""
    _check_name(text)
    return np.asarray(text)


def _check_name(name: str) -> None:
    """NumPy drops zero characters at the end of strings, and a file of arrays what follows one in a name."""
    if "\0" in name:
        raise ValueError(f"the name {name!r} holds a zero character, which NumPy does not keep; rename it")


def _of_group(group: Group) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {"group": as_text(group.group), "inverse": group.inverse}
    if isinstance(group, PartialIkjt):
        arrays |= {"start": group.start, "length": group.length}
    kind, rows_of = ("buffers", group.buffers) if isinstance(group, PartialIkjt) else ("features", group.features)
    for key, rows in rows_of.items():
        _check_name(key)
        arrays |= {f"{kind}/{key}/values": rows.values, f"{kind}/{key}/offsets": rows.offsets}
        if rows.weights is not None:
            arrays[f"{kind}/{key}/weights"] = rows.weights
    if group.dense is not None:
        arrays |= {"dense": group.dense, "dense_names": np.asarray(group.dense_names)}
    return arrays


def _group(group: str, own: dict[str, npt.NDArray[Any]], begin: str) -> Group:
    """The group of its arrays, whose names begin after `begin`."""
    flat = [name for name, array in own.items() if array.ndim == 0]
    if flat:
        raise ValueError(f"group {group}: {begin}{flat[0]} has no dimensions")
    rows_of: dict[str, dict[str, dict[str, npt.NDArray[Any]]]] = {kind: {} for kind in _ROWS}
    for name in [name for name in own if name.startswith(_ROWS) and name.count("/") > 1]:
        kind, rest = name.split("/", 1)
        key, part = rest.rsplit("/", 1)
        if kind in _ROWS and part in _PARTS:
            rows_of[kind].setdefault(key, {})[part] = own.pop(name)
    if rows_of["features"] and rows_of["buffers"]:
        raise ValueError(f"group {group}: has features and buffers; it is either exact or partial")
    kind = "buffers" if rows_of["buffers"] else "features"
    rows = {}
    for key, parts in rows_of[kind].items():
        missing = [part for part in ("values", "offsets") if part not in parts]
        if missing:
            raise ValueError(f"group {group}: there is no array {begin}{kind}/{key}/{missing[0]}")
        rows[key] = Jagged(parts["values"], parts["offsets"], parts.get("weights"))
    needed = ("inverse", "start", "length") if kind == "buffers" else ("inverse",)
    columns = {name: own.pop(name) for name in needed if name in own}
    if len(columns) < len(needed):
        missing_column = next(name for name in needed if name not in columns)
        raise ValueError(f"group {group}: there is no array {begin}{missing_column}")
    dense = own.pop("dense", None)
    names = own.pop("dense_names", np.asarray((), np.str_))
    if names.dtype.kind != "U" or names.ndim != 1:
        raise ValueError(f"group {group}: {begin}dense_names must be one row of strings, not {names.dtype}")
    if own:
        raise ValueError(f"group {group}: has no use for an array {begin}{min(own)}")
    inverse, dense_names = columns["inverse"], tuple(names.tolist())
    read: Group = Ikjt(group, rows, inverse, dense, dense_names)
    if kind == "buffers":
        read = PartialIkjt(group, rows, columns["start"], columns["length"], inverse, dense, dense_names)
    read.validate()
    return read
