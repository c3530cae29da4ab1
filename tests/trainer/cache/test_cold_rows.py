"""The cold file's places: every row is found where it was put last, whatever moved in between."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.errors import ConfigError
from trainer.cache.cold_file import PLACES_ALIGNED, ColdFile
from trainer.cache.cold_rows import ColdRows, num_places

DIM, ROWS = 4, 300
MOVES = st.lists(
    st.tuples(st.sampled_from(["move", "move", "move", "whole", "reset"]), st.integers(0, 2**32 - 1)), max_size=25
)


def places(directory: Path, *, direct: bool = True) -> ColdRows:
    file = ColdFile(directory, num_places(ROWS, PLACES_ALIGNED), DIM, direct=direct)
    return ColdRows(file, ROWS, PLACES_ALIGNED)


@settings(deadline=None)
@given(moves=MOVES, direct=st.booleans())
def test_a_row_holds_what_was_put_last(moves: list[tuple[str, int]], *, direct: bool) -> None:
    """Against an array: rows become hot, change, and go back, some at once and some steps later."""
    with TemporaryDirectory() as directory:
        cold, truth = places(Path(directory), direct=direct), np.zeros((ROWS, DIM + 1), np.float32)
        hot = np.zeros(ROWS, np.bool_)
        for move, seed in moves:
            rng = np.random.default_rng(seed)
            if move == "move":
                come = rng.permutation(np.flatnonzero(~hot))[: rng.integers(150)]
                found = np.empty((len(come), DIM + 1), np.float32)
                cold.fetch(come, found)
                np.testing.assert_array_equal(found, truth[come])
                cold.take(come)
                hot[come] = True
                leave = rng.permutation(np.flatnonzero(hot))[: rng.integers(150)]
                truth[leave] = rng.normal(size=(len(leave), DIM + 1))
                cold.put(leave, truth[leave])
                hot[leave] = False
                continue
            weight, momentum = (each.numpy() for each in cold.whole())
            np.testing.assert_array_equal(weight[~hot], truth[~hot, :DIM])
            np.testing.assert_array_equal(momentum[~hot], truth[~hot, DIM])
            if move == "reset":
                truth[:] = rng.normal(size=truth.shape)
                weight[:], momentum[:] = truth[:, :DIM], truth[:, DIM]
                cold.reset()
                hot[:] = False


def test_the_file_has_no_name_and_is_gone_with_the_process(tmp_path: Path) -> None:
    places(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_disk_without_room_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train.cold_directory = .* has no room for .* GB of rows"):
        ColdFile(tmp_path, 1 << 42, 64)
    assert not list(tmp_path.iterdir())
