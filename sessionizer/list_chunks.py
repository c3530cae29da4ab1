"""List features of held rows, in the chunks in which they arrived.

Owns where the lists of a row are: values of one poll stay together, and rows that share a list share it here too.
Never looks at ids. With no list features there is nothing to keep.

Shape suffixes: R rows, N events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sessionizer.growing import grown
from streams.events.event import ListColumn

I32 = npt.NDArray[np.int32]
Columns = tuple[ListColumn, ...]

_NONE = -1
_SMALLEST = 1024


@dataclass(slots=True)
class _Chunk:
    """The lists of one poll."""

    columns: Columns
    num_rows: int
    num_live: int


class ListChunks:
    """Lists of the rows of one partition, by the names of the rows."""

    def __init__(self, num_lists: int) -> None:
        self._num_lists = num_lists
        self._chunk = np.zeros(0, np.int32)
        """[R], chunk that holds the lists of the row."""
        self._place = np.zeros(0, np.int32)
        """[R], its place in the chunk."""
        self._chunks: dict[int, _Chunk] = {}
        self._next_chunk = 0

    def grow(self, size: int) -> None:
        """Names up to `size`."""
        if self._num_lists:
            self._chunk, self._place = grown(self._chunk, size), grown(self._place, size)

    def add(self, columns: Columns, names: I32) -> None:
        """Hold the lists of N events under names."""
        if self._num_lists:
            self._chunk[names], self._place[names] = self._next_chunk, np.arange(len(names))
            self._chunks[self._next_chunk] = _Chunk(columns, len(names), len(names))
            self._next_chunk += 1

    def take(self, names: I32) -> Columns:
        """The lists of these rows, in the given order; each chunk's are gathered once."""
        if not self._num_lists:
            return ()
        chunk = self._chunk[names]
        order = np.argsort(chunk, kind="stable")
        starts = np.flatnonzero(np.diff(chunk[order], prepend=_NONE))
        runs = np.split(order, starts[1:])
        places = [self._place[names[run]].astype(np.int64) for run in runs]
        chunks = [self._chunks[int(chunk[run[0]])] for run in runs]
        return tuple(
            _joined([one.columns[k].take(place) for one, place in zip(chunks, places, strict=True)], runs, len(names))
            for k in range(self._num_lists)
        )

    def free(self, names: I32, live: Callable[[], I32]) -> None:
        """Forget the lists of `names`; `live` tells the rows that are left."""
        if not self._num_lists:
            return
        for number, count in zip(*np.unique(self._chunk[names], return_counts=True), strict=True):
            chunk = self._chunks[int(number)]
            chunk.num_live -= int(count)
            if not chunk.num_live:
                del self._chunks[int(number)]
        num_live = sum(chunk.num_live for chunk in self._chunks.values())
        if self.num_held > 4 * max(num_live, _SMALLEST):
            self._compact(live())

    @property
    def num_held(self) -> int:
        """Rows whose lists are in memory, forgotten ones included."""
        return sum(chunk.num_rows for chunk in self._chunks.values())

    def _compact(self, live: I32) -> None:
        """One chunk of live rows in place of many that are mostly forgotten."""
        if len(live):
            columns = tuple(column.own() for column in self.take(live))
            self._chunks.clear()
            self.add(columns, live)


def _joined(pieces: list[ListColumn], places: list[npt.NDArray[np.int64]], num: int) -> ListColumn:
    """One column of `num` events; each piece belongs at its places."""
    column = ListColumn.concat(pieces)
    index = np.empty(num, np.int32)
    index[np.concatenate(places)] = column.index
    return replace(column, index=index)
