"""Feature groups as sections of a message, in either form.

Owns the order of a group's sections. A group begins with its inverse, then come its dense columns, if any. An exact
group goes on feature by feature: lengths, values and, where there are any, weights. A partial one first has the
start and the length of its windows and the lengths of its buffers, once for all features, and then values and
weights of each.

Shape suffixes: U distinct rows, K dense columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from streams.errors import WireError
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.windows import Group, PartialIkjt, windows_inside
from streams.wire.layout import FLOAT32, INT32, INT64, MAX_DECODED_BYTES, Kind
from streams.wire.packing import Packed, pack, pack_matrix, plain
from streams.wire.sections import Column, Sections

Array = npt.NDArray[Any]

_NAMES_END = "\0"
# Plain numbers: they are compared with over a hundred times a message.
_INVERSE, _LENGTHS, _VALUES, _WEIGHTS, _GROUP_DENSE = map(
    int, (Kind.INVERSE, Kind.LENGTHS, Kind.VALUES, Kind.WEIGHTS, Kind.GROUP_DENSE)
)
_START, _WINDOW, _BUFFERS = map(int, (Kind.START, Kind.WINDOW, Kind.BUFFERS))


def stored(group: Group) -> Iterable[Jagged]:
    """Every feature's rows, or its buffers, as they are stored."""
    return (group.features if isinstance(group, Ikjt) else group.buffers).values()


def columns_of(group: Group, compressor: zstandard.ZstdCompressor, values: Iterator[Packed]) -> Iterator[Column]:
    """Every section of a group, in order. `values` gives the values of each of its features, already packed."""
    name = group.group
    yield Column(Kind.INVERSE, group.inverse, pack(group.inverse, compressor, rising=True), name)
    if group.dense is not None:
        names = _NAMES_END.join(group.dense_names)
        packed = pack_matrix(group.dense, compressor)
        yield Column(Kind.GROUP_DENSE, group.dense, packed, names, columns=len(group.dense_names))
    if isinstance(group, Ikjt):
        yield from _features(group.features, compressor, values, lengths=True)
        return
    sizes = next(iter(group.buffers.values())).lengths
    yield Column(Kind.START, group.start, pack(group.start, compressor, rising=True), name)
    yield Column(Kind.WINDOW, group.length, pack(group.length, compressor, rising=True), name)
    yield Column(Kind.BUFFERS, sizes, pack(sizes, compressor), name)
    yield from _features(group.buffers, compressor, values, lengths=False)


def read_group(sections: Sections) -> Group:
    """The next group, which keeps its promises. Raises WireError, or ValueError in the words of `validate`."""
    head = sections.take(_INVERSE, INT32)
    name, inverse, num_rows = sections.name(head), sections.column(head), sections.proofs[head]
    group: Group
    dense, names = _read_dense(sections, num_rows)
    if sections.upcoming() == _START:
        group, proved = _read_windows(sections, Ikjt(name, {}, inverse, dense, names), num_rows)
    else:
        features: dict[str, Jagged] = {}
        group, proved = Ikjt(name, features, inverse, dense, names), True
        while sections.upcoming() == _LENGTHS:
            lengths = sections.take(_LENGTHS, INT64)
            proved &= sections.counts[lengths] == num_rows
            proved &= _add_feature(features, sections, lengths, named=True)
        proved &= bool(features)
    if not proved or dense is not None:
        group.validate()  # it has the words
    if not proved:
        raise WireError(f"group {name} breaks its own rules")
    return group


def check_windows(groups: Iterable[Group]) -> None:
    """Raise ValueError for a valid partial group whose rows, each copied out, need more memory than is believed."""
    for group in groups:
        if isinstance(group, PartialIkjt):
            needed = 8 * int(group.length.sum(dtype=np.int64)) * len(group.buffers)
            if needed > MAX_DECODED_BYTES:
                raise ValueError(
                    f"group {group.group}: its windows hold {needed} bytes when each is copied out, more than "
                    f"{MAX_DECODED_BYTES}; make smaller batches"
                )


def _features(
    rows_of: Mapping[str, Jagged], compressor: zstandard.ZstdCompressor, values: Iterator[Packed], *, lengths: bool
) -> Iterator[Column]:
    for key, rows in rows_of.items():
        if lengths:
            yield Column(Kind.LENGTHS, rows.lengths, pack(rows.lengths, compressor), key)
        yield Column(Kind.VALUES, rows.values, next(values), key)
        if rows.weights is not None:
            yield Column(Kind.WEIGHTS, rows.weights, plain(rows.weights), key)


def _read_windows(sections: Sections, head: Ikjt, num_rows: int) -> tuple[Group, bool]:
    """A partial group of this head, and whether it keeps its promises."""
    start, length = sections.take(_START, INT32), sections.take(_WINDOW, INT32)
    sizes = sections.take(_BUFFERS, INT64)
    proved = sections.counts[start] == num_rows == sections.counts[length]
    buffers: dict[str, Jagged] = {}
    while sections.upcoming() == _VALUES:
        proved &= _add_feature(buffers, sections, sizes, named=False)
    columns = sections.column(start), sections.column(length)
    proved = proved and bool(buffers) and bool(windows_inside(sections.column(sizes), *columns).all())
    return PartialIkjt(head.group, buffers, *columns, head.inverse, head.dense, head.dense_names), proved


def _add_feature(features: dict[str, Jagged], sections: Sections, lengths: int, *, named: bool) -> bool:
    """Values and weights of one feature, and whether they are as many as its lengths say.

    The section of the lengths has the feature's name, or the group's.
    """
    values = sections.take(_VALUES)
    key, names = sections.name(values), sections.names
    if key in features or (named and names[lengths] != names[values]):
        raise WireError(f"{sections.words(values)} is mixed with another feature or repeated")
    ids = sections.column(values)
    if ids.dtype.kind != "i":
        raise WireError(f"{sections.words(values)} holds {ids.dtype}, not integers")
    weights, size = None, sections.counts[values]
    if sections.upcoming() == _WEIGHTS:
        each = sections.take(_WEIGHTS, FLOAT32)
        if sections.counts[each] != size or names[each] != names[values]:
            raise WireError(f"{sections.words(each)} is mixed with another feature or repeated, or not one a value")
        weights = sections.column(each)
    features[key] = Jagged(ids, sections.column(lengths), weights)
    return sections.proofs[lengths] == size


def _read_dense(sections: Sections, num_rows: int) -> tuple[Array | None, tuple[str, ...]]:
    """[U, K] and its names, where the group has dense columns."""
    if sections.upcoming() != _GROUP_DENSE:
        return None, ()
    index = sections.take(_GROUP_DENSE, FLOAT32)
    return sections.matrix(index, num_rows), tuple(sections.name(index).split(_NAMES_END))
