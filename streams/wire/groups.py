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
from streams.ikjt.jagged import Jagged, offsets_of
from streams.ikjt.windows import Group, PartialIkjt
from streams.wire.layout import MAX_DECODED_BYTES, Kind
from streams.wire.packing import Packed, pack, pack_matrix, plain
from streams.wire.sections import Column, Sections

Array = npt.NDArray[Any]

_NAMES_END = "\0"


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
    """The next group. Raises WireError; what it returns has still to pass `validate`."""
    head, inverse = sections.take(Kind.INVERSE)
    dense, names = _read_dense(sections)
    if sections.upcoming() is not Kind.START:
        features: dict[str, Jagged] = {}
        while sections.upcoming() is Kind.LENGTHS:
            section, lengths = sections.take(Kind.LENGTHS)
            _add_feature(features, sections, section.name, offsets_of(_integers(str(section), lengths)))
        return Ikjt(head.name, features, inverse, dense, names)
    _, start = sections.take(Kind.START)
    _, length = sections.take(Kind.WINDOW)
    section, sizes = sections.take(Kind.BUFFERS)
    offsets = offsets_of(_integers(str(section), sizes))
    buffers: dict[str, Jagged] = {}
    while sections.upcoming() is Kind.VALUES:
        _add_feature(buffers, sections, None, offsets)
    return PartialIkjt(head.name, buffers, start, length, inverse, dense, names)


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


def _add_feature(
    features: dict[str, Jagged], sections: Sections, key: str | None, offsets: npt.NDArray[np.int64]
) -> None:
    """Values and weights of one feature; a key that is None is that of the values."""
    section, values = sections.take(Kind.VALUES)
    key = section.name if key is None else key
    weights = None
    if section.name != key or key in features:
        raise WireError(f"{section} is mixed with another feature or repeated")
    if sections.upcoming() is Kind.WEIGHTS:
        section, weights = sections.take(Kind.WEIGHTS)
        if section.name != key:
            raise WireError(f"{section} is mixed with another feature or repeated")
    features[key] = Jagged(values, offsets, weights)


def _read_dense(sections: Sections) -> tuple[Array | None, tuple[str, ...]]:
    """[U, K] and its names, where the group has dense columns."""
    if sections.upcoming() is not Kind.GROUP_DENSE:
        return None, ()
    section, column = sections.take(Kind.GROUP_DENSE)
    if section.columns == 0 or section.count % section.columns:
        raise WireError(f"{section} has {section.count} values in {section.columns} columns")
    return column.reshape(-1, section.columns), tuple(section.name.split(_NAMES_END))


def _integers(name: str, lengths: Array) -> Array:
    if lengths.dtype.kind != "i":
        raise WireError(f"{name} holds {lengths.dtype}, not integers")
    return lengths
