"""From the fields of events to labels: what one event says, how several outcomes add up, and when that is positive.

Owns the two steps of a label. An event *says* a number, or nothing (NaN): for most labels 0 or 1, by the label's rule;
for those that combine by `max` or `sum` the number of its field, because the rule applies to what they add up to. What
is said becomes a *label*, 0 or 1, once nothing more is expected. Never reads a message.

Shape suffixes: N events, T labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streams.events.schema import Label

F32 = npt.NDArray[np.float32]

_TEST: Final[dict[str, Callable[[Any, float], Any]]] = {
    "ge": np.greater_equal,
    "gt": np.greater,
    "eq": np.equal,
    "value": np.equal,
}


class Combine(IntEnum):
    """How a kernel joins what two outcomes say."""

    LARGEST = 0
    LATEST = 1
    SUM = 2


def says(label: Label, values_N: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """[N], what events with these numbers in the label's field say; NaN in, NaN out. Not for the rule `in`."""
    if label.combine in {"max", "sum"}:
        return values_N
    return np.where(np.isnan(values_N), np.nan, holds(label, values_N))


def holds(label: Label, values_N: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """[N], whether the rule holds for a number; NaN: it does not."""
    found: npt.NDArray[Any] = _TEST[label.rule](values_N, 1.0 if label.rule == "value" else label.threshold)
    return found


def finished(labels: Sequence[Label], said_NT: F32) -> F32:
    """[N, T], 0 or 1: the labels of samples of whose outcomes that much was said."""
    out = np.nan_to_num(said_NT, nan=0.0)
    for column, label in enumerate(labels):
        if label.combine in {"max", "sum"}:
            out[:, column] = holds(label, said_NT[:, column])
    return out


def positive(label: Label, said_N: F32) -> npt.NDArray[np.bool_]:
    """[N], whether what one event says is positive by itself."""
    found: npt.NDArray[np.bool_] = holds(label, said_N) if label.combine in {"max", "sum"} else said_N >= 0.5
    return found


def combine_codes(labels: Sequence[Label]) -> npt.NDArray[np.int8]:
    """[T], `Combine` of each label."""
    code = {"any": Combine.LARGEST, "max": Combine.LARGEST, "last": Combine.LATEST, "sum": Combine.SUM}
    return np.array([code[label.combine] for label in labels], np.int8)


def positive_from(labels: Sequence[Label]) -> tuple[F32, npt.NDArray[np.bool_]]:
    """[T] and [T]: what must be said of each label at least for it to be 1, and whether it must be more than that."""
    by_size = [label.combine in {"max", "sum"} for label in labels]
    least = [label.threshold if its else 0.5 for label, its in zip(labels, by_size, strict=True)]
    strictly = [its and label.rule == "gt" for label, its in zip(labels, by_size, strict=True)]
    return np.array(least, np.float32), np.array(strictly, np.bool_)


def settled_at(labels: Sequence[Label]) -> F32:
    """[T], what must be said of each label at least for it to be 1 whatever else is said; infinite where nothing is."""
    return np.array([_settled_at(label) for label in labels], np.float32)


def _settled_at(label: Label) -> np.float32:
    if label.combine == "any":
        return np.float32(1.0)
    if label.combine != "max":
        return np.float32(np.inf)
    threshold = np.float32(label.threshold)
    return threshold if label.rule == "ge" else np.nextafter(threshold, np.float32(np.inf))
