"""Advice in words.

Owns every sentence, and the two thresholds behind "pays": from 2x it does, from 1.5x a little, below that hardly.
Judged is what sessions give. What repeats between sessions (a country, a popular item) is said beside it: it is there
in batches of any order, and any deduplication of ids finds it. Never computes a figure.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from streams.advisor.advice import Advice, HoldAdvice, UnitAdvice
from streams.advisor.grouping import MORE_VALUES, TOGETHER, Candidate
from streams.advisor.hold import SESSION

PAYS, PAYS_LITTLE, REPEATS_FACTOR, ENOUGH = 2.0, 1.5, 1.05, 0.9
"""ENOUGH: of the factor of whole sessions, what a hold time must reach to be named."""
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


def pays(advice: Advice) -> Literal["yes", "little", "hardly"]:
    """Whether deduplication pays on this stream."""
    if advice.factor >= PAYS:
        return "yes"
    return "little" if advice.factor >= PAYS_LITTLE else "hardly"


def sentence(advice: Advice) -> str:
    """The verdict."""
    how = {"yes": "pays", "little": "pays a little", "hardly": "hardly pays"}[pays(advice)]
    sessions = advice.holds[-1]
    saving = 100 * (1 - advice.bytes_after / max(1, advice.bytes_before))
    aside = [f"{saving:.0f} % fewer bytes in memory" if saving >= 0 else f"{-saving:.0f} % more bytes in memory"]
    if any(group.form == "partial" for group in advice.groups):
        aside.append(f"{sessions.exact:.2f}x without the partial form")
    if sessions.whole_batch >= REPEATS_FACTOR * sessions.measured:
        aside.append(f"{sessions.whole_batch:.2f}x with what repeats between sessions")
    text = (
        f"Deduplication {how} here: sessions of {advice.samples_per_session:.1f} samples give "
        f"{advice.factor:.2f}x fewer embedding lookups ({', '.join(aside)})."
    )
    return f"{text} {_why_not(advice) if pays(advice) == 'hardly' else _freshness(advice, sessions)}"


def _why_not(advice: Advice) -> str:
    if advice.samples_per_session < 2:
        return "Sessions are too short: a sample seldom has a neighbour to share its features with."
    weight = max(1, advice.lookups_before)
    unchanged = sum(each.unchanged * each.values_before for each in advice.features) / weight
    if unchanged < 0.5:
        return f"Features change too often: only {100 * unchanged:.0f} % of the ids stand unchanged beside a neighbour."
    return "Samples of a session seldom share a batch: raise batch.samples or the hold time."


def _freshness(advice: Advice, sessions: HoldAdvice) -> str:
    enough = next(hold for hold in advice.holds if hold.measured >= ENOUGH * sessions.measured)
    if enough.hold_ms == SESSION:
        return "It takes whole sessions: no shorter hold time that was tried gives 90 % of it."
    if enough.hold_ms <= advice.fill_ms:
        return (
            f"A batch of {advice.batch_samples} takes {duration(advice.fill_ms)} to fill, which gives 90 % of it: "
            "samples need not be held any longer."
        )
    return f"Holding samples for {duration(enough.hold_ms)} gives 90 % of it."


def reason(unit: UnitAdvice, found: Candidate) -> str:
    """Why a group is as it is."""
    shifts = f"; rows shift: windows save {100 * unit.share_windows:.0f} % more of the ids" if found.is_partial else ""
    several, stays = len(unit.features) > 1, f"{100 * unit.unchanged:.0f} %"
    who = "change together" if several else "changes by itself"
    if unit.values_before / max(1, found.values) < REPEATS_FACTOR:
        return f"{who}, and nothing repeats within sessions" + (": one group saves inverses" if several else "")
    if not np.any(found.any_changed):
        return f"never {'change' if several else 'changes'} within a session{shifts}"
    return f"{who}, unchanged at {stays} of neighbours{shifts}"


def apart(share: float, values_as_one: int, values_apart: int) -> str:
    """Why two groups are not one."""
    if share == 0:
        return "when one changes, the other never does"
    if share < TOGETHER:
        return f"only {100 * share:.0f} % of their changes fall on the same sample"
    if values_as_one > MORE_VALUES * values_apart:
        return "they change together, but as one group the lists no longer repeat or shift as they do alone"
    return "one group would save fewer bytes"


def duration(ms: int) -> str:
    """A hold time or a wait for a person; "session" for whole sessions."""
    if ms == SESSION:
        return "session"
    size, unit = next(((size, unit) for size, unit in _UNITS if ms >= size), (1000, "s"))
    return f"{ms / size:.3g} {unit}"
