"""Which samples without a positive label are trained.

Owns the choice: by a hash of the sample's or the session's identity, so that every run makes the same one. Positive
samples always stay.

Shape suffixes: B samples, T labels.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from sessionizer.config import JoinConfig
from sessionizer.packer import Clustered
from streams.events.ids import mixed

_SALT: Final = np.uint64(0x5A3D_91F0_7C2B_E846)
"""Keeps the choice apart from everything else that hashes ids."""


def is_kept(
    config: JoinConfig,
    labels_BT: npt.NDArray[np.float32],
    event_id_B: npt.NDArray[np.uint64],
    session_id_B: npt.NDArray[np.uint64],
) -> npt.NDArray[np.bool_]:
    """[B], whether the sample stays."""
    identity = session_id_B if config.negative_unit == "session" else event_id_B
    # 53 bits of the hash: every one of them fits a float64, so the comparison is exact.
    place = (mixed(identity ^ _SALT) >> np.uint64(11)).astype(np.float64) / 2**53
    kept: npt.NDArray[np.bool_] = np.any(labels_BT > 0.5, axis=1) | (place < config.negative_rate)
    return kept


def sampled(config: JoinConfig, samples: Clustered) -> Clustered:
    """Without the negative samples that are not to be trained."""
    if config.negative_rate == 1.0:
        return samples
    events = samples.events
    kept = is_kept(config, events.labels, events.event_id, samples.session_id)
    return samples if kept.all() else samples.take(np.flatnonzero(kept))
