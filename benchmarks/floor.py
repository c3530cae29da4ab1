"""The entropy floor of a synthetic stream: bytes a sample for an ideal coder that knows every law and the permutation.

Owns the arithmetic. What is counted: every drawn id, list length, redraw and append, dense value and label, and where
sessions end. Lineage (offset, event id, times) is not; the messages compared with the floor carry constants there.

A dense value is taken to be a float32 whose mantissa is uniform: the differential entropy of the normal distribution
minus the mean logarithm of the distance between neighbouring floats, about 26.5 bits.

Shapes: B samples, C sessions.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from benchmarks.rm import LABEL_RATE, NUM_IDS, SAMPLES_PER_SESSION, Laws, zipf


def bits_of_id() -> float:
    """Entropy of one drawn id."""
    probability = zipf()
    assert len(probability) == NUM_IDS
    return float(-(probability * np.log2(probability)).sum())


def bits_of_float() -> float:
    """Entropy of one normal float32, with 23 bits of mantissa below its leading bit."""
    entropy = 0.5 * math.log2(2 * math.pi * math.e)
    edges = 2.0 ** np.arange(-40, 5)
    inside = [math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)) for low, high in pairwise(edges)]
    exponent = float(np.dot(inside, np.arange(-40, 4)))
    return entropy - (exponent - 23)


def bits_of_event(probability: float) -> float:
    """Entropy of one yes or no."""
    return -sum(p * math.log2(p) for p in (probability, 1 - probability) if p > 0)


def floor_bytes(laws: Laws, num_samples: int, num_sessions: int, drawn: int | None = None) -> dict[str, float]:
    """Bytes a sample, by what they say, and in all, for so many samples of so many sessions.

    `drawn` is how many ids were drawn in these sessions; without it, as many as the laws expect.
    """
    later = num_samples - num_sessions
    # Lists that are drawn whole, and ids that are appended.
    user_lists = num_sessions + later * (1 - laws.user_d)
    ids = laws.histories * (num_sessions * _mean(laws.history_mean) + later * (1 - laws.history_d))
    ids += laws.users * user_lists * _mean(laws.user_mean)
    ids += laws.items * num_samples * _mean(laws.item_mean)
    lengths = num_sessions * math.log2(2 * laws.history_mean) if laws.histories else 0.0
    lengths += laws.users * user_lists * math.log2(2 * laws.user_mean)
    lengths += laws.items * num_samples * math.log2(2 * laws.item_mean)
    events = laws.users * later * bits_of_event(1 - laws.user_d)
    events += later * bits_of_event(1 - laws.history_d) if laws.histories else 0.0
    bits = {
        "ids": (ids if drawn is None else drawn) * bits_of_id(),
        "lengths": lengths,
        "events": events,
        "dense": (laws.user_dense * num_sessions + laws.item_dense * num_samples) * bits_of_float(),
        "labels": num_samples * bits_of_event(LABEL_RATE),
        "sessions": num_sessions * SAMPLES_PER_SESSION * bits_of_event(1 / SAMPLES_PER_SESSION),
    }
    parts = {name: each / 8 / num_samples for name, each in bits.items()}
    return parts | {"all": sum(parts.values())}


def _mean(mean: int) -> float:
    """Of the uniform lengths 1…2×mean."""
    return mean + 0.5
