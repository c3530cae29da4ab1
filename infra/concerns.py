"""What in a trainer's scores deserves a word: a model that cannot be learning, with the likely cause.

Owns the thresholds and the words (pure). Never stops anything: the numbers may be what the data is like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ENOUGH_SAMPLES: Final = 2_000
HOPELESS_NE: Final = 1.2
"""A model that has not learned anything yet is at 1.0 or a little above."""


def concerns(metrics: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """(task, kind) to a sentence, for what the evaluator reports; empty when nothing stands out."""
    found = {}
    for task, scopes in metrics.items():
        window = scopes["window"]
        if window["samples"] < ENOUGH_SAMPLES:
            continue
        last = f"task {task}, last {window['samples']} samples"
        if window["base_rate"] in (0.0, 1.0):
            found[task, "one_class"] = (
                f"{last}: every label is {window['base_rate']:.0f}, so there is nothing to learn; check labels.{task}: "
                "its field and rule"
            )
        elif window["ne"] is not None and window["ne"] > HOPELESS_NE:
            found[task, "worse_than_nothing"] = (
                f"{last}: NE {window['ne']:.2f} is worse than knowing only the base rate; scale dense values to about "
                "-1…1, give lists and histories a pooling of mean or attention, or lower optimizer.learning_rate"
            )
    return found
