"""What every form of a feature group promises about its inverse and its dense columns.

Owns these checks, so that the exact and the partial form promise the same. Each raises ValueError in words.

Shape suffixes: B samples, U distinct rows, K dense columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.ikjt.kernels import numbered_rows


def check_inverse(group: str, inverse: npt.NDArray[Any], num_rows: int) -> None:
    """`inverse` [B] lies in [0, U), uses every row, and rows are numbered by first appearance."""
    if inverse.ndim != 1 or inverse.dtype != np.int32:
        raise ValueError(f"group {group}: inverse must be one row of int32, not {inverse.dtype}")
    if numbered_rows(inverse) == num_rows:
        return
    outside = np.flatnonzero((inverse < 0) | (inverse >= num_rows))
    if len(outside):
        b = int(outside[0])
        raise ValueError(f"group {group}: sample {b} uses row {inverse[b]}; there are {num_rows} rows, counted from 0")
    # With rows numbered by first appearance, no sample may reach past the rows seen so far by more than one.
    seen = np.maximum.accumulate(inverse)
    jumps = np.flatnonzero(np.diff(seen, prepend=-1) > 1)
    if len(jumps):
        b = int(jumps[0])
        raise ValueError(f"group {group}: sample {b} uses row {seen[b]} before the rows below it were used")
    last = int(seen[-1]) if len(seen) else -1
    if last + 1 != num_rows:
        raise ValueError(f"group {group}: samples use {last + 1} rows, but there are {num_rows}")


def check_dense(group: str, dense: npt.NDArray[Any] | None, names: tuple[str, ...], num_rows: int) -> None:
    """`dense` is [rows, K] float32 with a name of its own for each column, or is absent, and then nothing is named."""
    if dense is None:
        if names:
            raise ValueError(f"group {group}: dense columns {', '.join(names)} are named but not there")
        return
    if dense.dtype != np.float32 or dense.shape != (num_rows, len(names)):
        raise ValueError(
            f"group {group}: dense must be [{num_rows}, {len(names)}] float32, not {list(dense.shape)} {dense.dtype}"
        )
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"group {group}: dense columns need a name each, and each its own, not {names}")
    if any("\0" in name or not name for name in names):
        raise ValueError(f"group {group}: a dense column's name is empty or holds a zero character: {names}")


def check_sessions(group: str, session_id: npt.NDArray[Any], num_samples: int) -> None:
    """`session_id` is one id a sample, [B]."""
    if np.shape(session_id) != (num_samples,):
        raise ValueError(
            f"group {group}: session_id must have one id for each of {num_samples} samples, not shape "
            f"{list(np.shape(session_id))}"
        )


def check_distinct(group: str, kinds: npt.NDArray[np.int32], keys: Sequence[str]) -> None:
    """No two rows are of one kind [U]: none is equal to another in everything that the group holds."""
    if numbered_rows(kinds) == len(kinds):
        return
    row = int(np.argmax(kinds != np.arange(len(kinds))))
    raise ValueError(
        f"group {group}: rows {kinds[row]} and {row} are equal in {', '.join(keys)}; equal rows are stored once, as "
        "deduplicate does"
    )


def first_samples(inverse: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """[U], the first sample of each row, given that rows are numbered by first appearance."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(inverse), prepend=-1))
