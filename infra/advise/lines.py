"""Advice for a program: one JSON object a line, the summary last.

Owns the kinds of lines. Their keys are the names of `streams.advisor.advice`. Never computes a figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from streams.advisor.advice import Advice

_LISTED: Final = ("features", "groups", "configured", "apart", "towers", "holds")


def lines(advice: Advice, more: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every line; `more` goes into the summary."""
    found = asdict(advice)
    yield from ({"event": "feature", **feature} for feature in found["features"])
    for group, planned in zip(found["groups"], advice.groups, strict=True):
        after = {"values_after": planned.values_after, "bytes_after": planned.bytes_after}
        yield {"event": "group", **group.pop("unit"), **group, **after}
    for name, event in (("configured", "configured_group"), ("apart", "apart"), ("towers", "tower"), ("holds", "hold")):
        yield from ({"event": event, **each} for each in found[name])
    facts = {name: value for name, value in found.items() if name not in _LISTED}
    last = {"event": "summary", "ok": True, **facts, "factor": advice.factor, "predicted": advice.holds[-1].predicted}
    yield last | {"whole_batch": advice.holds[-1].whole_batch, **more, "exit_reason": "done"}
