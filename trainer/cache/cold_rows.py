"""Which row is in which place of the cold file.

A row that becomes hot leaves a hole, and one that is no longer hot fills any: the open segment's, which is in memory
and goes to the disk when it has no hole left; then the segment with the most is opened. So rows are read one by one,
but written many at a time. Never decides which rows are hot.

Shape suffixes: R rows of the arena, P places, M rows that are read, E rows that leave, G places of a segment,
S numbers of a row (D weights and one more).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streams.errors import ConfigError
from streams.ikjt.kernels import compiled
from trainer.cache.cold_file import PLACES_ALIGNED, ColdFile

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

SEGMENT: Final = 8 * PLACES_ALIGNED
"""Places of a segment: large enough for a disk, small enough to find ones that are half empty."""
_SPARE: Final = 0.25
"""Places beside the rows: with none, segments would be full where nearly all rows are cold."""
_NOWHERE: Final = -1


def num_places(num_rows: int, segment: int = SEGMENT) -> int:
    """Places of a file for so many rows: whole segments, and never without a hole."""
    return (int(num_rows * (1 + _SPARE)) // segment + 2) * segment


class ColdRows:
    """The rows of the arena that are not hot. All of them, at first."""

    def __init__(self, file: ColdFile, num_rows: int, segment: int = SEGMENT) -> None:
        if len(file.rows_PS) >= 1 << 31:
            raise ConfigError(f"model.tables has {num_rows:,} rows together, more than one file can place; lower them")
        self._file = file
        self._num_rows = num_rows
        self._segment = segment
        self._open_GS = file.segment(segment)
        self.reset()

    def reset(self) -> None:
        """Every row is cold, and in the place of its number: what `whole` showed is what holds."""
        self._file.written()
        num = len(self._file.rows_PS)
        self._place_of_row: I32 = np.arange(self._num_rows, dtype=np.int32)
        self._row_of_place: I32 = np.full(num, _NOWHERE, np.int32)
        self._row_of_place[: self._num_rows] = self._place_of_row
        in_use = self._row_of_place.reshape(-1, self._segment) != _NOWHERE
        self._holes_of_segment: I64 = np.count_nonzero(~in_use, axis=1)
        self._open = self._filled = _NOWHERE

    def fetch(self, rows_M: I64, into_MS: F32) -> None:
        """Read these rows, which stay what they are. `into_MS`: at least M."""
        place_M = self._place_of_row[rows_M].astype(np.int64)
        if self._open == _NOWHERE:
            self._file.read_rows(place_M, into_MS)
            return
        first = self._open * self._segment
        here = (place_M >= first) & (place_M < first + self._segment)
        away = np.flatnonzero(~here)
        read_MS = into_MS if len(away) == len(rows_M) else np.empty((len(away), into_MS.shape[1]), np.float32)
        self._file.read_rows(place_M[away], read_MS)
        if read_MS is not into_MS:
            into_MS[away] = read_MS
            into_MS[np.flatnonzero(here)] = self._open_GS[place_M[here] - first]

    def take(self, rows_M: I64) -> None:
        """These rows are hot from now on: their places are holes."""
        place_M = self._place_of_row[rows_M]
        self._row_of_place[place_M] = _NOWHERE
        self._place_of_row[rows_M] = _NOWHERE
        self._holes_of_segment += np.bincount(place_M // self._segment, minlength=len(self._holes_of_segment))

    def put(self, rows_E: I64, rows_ES: F32) -> None:
        """These rows are cold from now on."""
        done = 0
        while done < len(rows_E):
            if self._open == _NOWHERE:
                self._open_emptiest()
            done, self._filled, filled = _fill(
                rows_E, rows_ES, done, self._open_GS, self._open * self._segment, self._filled, self._maps
            )
            self._holes_of_segment[self._open] -= filled
            if self._filled == self._segment:
                self._close()

    def whole(self) -> tuple[Tensor, Tensor]:
        """Weights [R, D] and second moments [R], the storage itself; rows that are hot hold what was there last.

        Brings every cold row back to the place of its number, so it is for whole tables. Who writes to it says `reset`.
        """
        if self._open != _NOWHERE:
            self._close()
        _sort(self._file.rows_PS, self._num_rows, self._maps)
        in_use = self._row_of_place.reshape(-1, self._segment) != _NOWHERE
        self._holes_of_segment[:] = np.count_nonzero(~in_use, axis=1)
        rows_RS = torch.from_numpy(self._file.rows_PS[: self._num_rows])
        return rows_RS[:, :-1], rows_RS[:, -1]

    @property
    def _maps(self) -> tuple[I32, I32]:
        return self._place_of_row, self._row_of_place

    def _open_emptiest(self) -> None:
        self._open, self._filled = int(np.argmax(self._holes_of_segment)), 0
        if self._holes_of_segment[self._open] < self._segment:
            self._file.read_segment(self._open * self._segment, self._open_GS)

    def _close(self) -> None:
        self._file.write_segment(self._open * self._segment, self._open_GS)
        self._open = _NOWHERE


@compiled
def _fill(
    rows: I64, data: F32, done: int, segment: F32, first: int, at: int, maps: tuple[I32, I32]
) -> tuple[int, int, int]:
    """Put rows from `done` on into holes from `at` on; how far both came, and how many were filled."""
    place_of_row, row_of_place = maps
    begun = done
    while at < len(segment) and done < len(rows):
        if row_of_place[first + at] < 0:
            for s in range(segment.shape[1]):
                segment[at, s] = data[done, s]
            row_of_place[first + at] = rows[done]
            place_of_row[rows[done]] = first + at
            done += 1
        at += 1
    return done, at, done - begun


@compiled
def _sort(rows_PS: F32, num_rows: int, maps: tuple[I32, I32]) -> None:
    """Bring each row that has a place to the place of its number."""
    place_of_row, row_of_place = maps
    for row in range(num_rows):
        place = place_of_row[row]
        if place == row or place < 0:
            continue
        other = row_of_place[row]
        for s in range(rows_PS.shape[1]):
            rows_PS[row, s], rows_PS[place, s] = rows_PS[place, s], rows_PS[row, s]
        place_of_row[row], row_of_place[row] = row, row
        row_of_place[place] = other
        if other >= 0:
            place_of_row[other] = place
