"""Which sessions are shed: left out because the trainer is too far behind.

Owns the choice. By a hash of the session's identity and nothing else, so that it knows no label and takes all parts of
a session alike; a smaller share takes a part of what a larger one takes. Never decides how large the share is: that
comes in as a clock mark.

The rule: the share that is in force when a session leaves, whole or as a part, decides about it. Since a core has
handled everything before a mark's position when the mark acts, where polls end does not matter. Of a sample that was
shed no correction is emitted; one that was emitted is corrected whatever the share is by then.

Shape suffixes: B samples, C closings.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from sessionizer.corrections import FORSAKEN, REMEMBERED, Corrections
from sessionizer.rows import Rows
from streams.clock_mark import WHOLE
from streams.events.ids import mixed

_SALT: Final = np.uint64(0x8E1F_6A3D_C957_0B42)
"""Keeps the choice apart from everything else that hashes sessions, the sampling of negatives above all."""
_SHIFT: Final = np.uint64(64 - WHOLE.bit_length() + 1)

I32 = npt.NDArray[np.int32]


def is_shed(session_id_C: npt.NDArray[np.uint64], share: int) -> npt.NDArray[np.bool_]:
    """[C], whether a session is among the `share`, in parts of `WHOLE`, that is shed."""
    return np.asarray(mixed(session_id_C ^ _SALT) >> _SHIFT < np.uint64(share))


def without_shed(
    closings_C: npt.NDArray[np.void], rows_B: I32, corrections: Corrections, rows: Rows, share: int
) -> tuple[npt.NDArray[np.void], I32, Corrections]:
    """What is emitted of closings, their rows and corrections; from then on what is shed is corrected no more."""
    if not share:
        return closings_C, rows_B, corrections
    shed_C = is_shed(closings_C["session_id"], share)
    shed_B = np.repeat(shed_C, closings_C["size"])
    theirs = rows_B[shed_B]
    # A sample may have left, and a label of it turned, in one call.
    corrections = corrections.take(~np.isin(corrections.rows, theirs))
    rows.keys["slot"][theirs[rows.keys["slot"][theirs] == REMEMBERED]] = FORSAKEN
    return closings_C[~shed_C], rows_B[~shed_B], corrections
