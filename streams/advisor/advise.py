"""A sample in, advice out.

Owns the order of the steps: pairs of neighbours, batches of every hold time, every feature measured in them, groups
found, towers measured, the verdict. Pure: equal samples give equal advice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from streams.advisor import towers, verdict
from streams.advisor.advice import Advice, Apart, AtHold, HoldAdvice, Planned, UnitAdvice
from streams.advisor.grouping import Candidate, Search, change_together
from streams.advisor.hold import DEFAULT_HOLDS_MS, SESSION, Formed, fill_ms, form, modelled
from streams.advisor.measure import exact, windows
from streams.advisor.naming import names_of
from streams.advisor.neighbours import Neighbours, factor_of, partial_factor_of
from streams.advisor.sample import Sample

Listener = Callable[[str, int, int], None]
"""Told what is being done, how many steps are done, and how many there are."""
_MOST_APART: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What advice is wanted about, beside the sample."""

    batch_samples: int
    holds_ms: tuple[int, ...] = DEFAULT_HOLDS_MS
    """Hold times; SESSION is always among them."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The groups of the configuration."""
    towers: tuple[tuple[str, ...], ...] = ()
    """Features of towers that are to be measured."""


def advise(sample: Sample, question: Question, listener: Listener = lambda _what, _done, _total: None) -> Advice:
    """Everything about one sample."""
    return _Advisor(sample, question, listener).advice()


class _Advisor:
    """One run."""

    def __init__(self, sample: Sample, question: Question, listener: Listener) -> None:
        self._sample = sample
        self._question = question
        self._listener = listener
        self._done = 0
        self._total = 1
        self._neighbours = Neighbours.of(sample)
        holds = sorted({*question.holds_ms} - {SESSION})
        self._formed = [form(sample, hold_ms, question.batch_samples) for hold_ms in [*holds, SESSION]]
        self._sessions = self._formed[-1]
        self._modelled = {
            each.hold_ms: modelled(sample, self._neighbours, each.hold_ms, question.batch_samples)
            for each in self._formed
        }
        self._search = Search(sample, self._neighbours, self._sessions)
        self._units: dict[tuple[str, ...], UnitAdvice] = {}

    def advice(self) -> Advice:
        """The steps in their order."""
        names = list(self._sample.columns)
        declared = {name: group for name, group in self._question.groups.items() if len(group) > 1}
        self._total = 3 * len(names) + len(declared) + 2
        features = tuple(self._unit(name, (name,), f"measuring {name}") for name in names)
        self._step("finding groups", len(names))
        candidates = self._search.groups()
        groups = dict(
            zip(names_of([each.features for each in candidates], self._question.groups), candidates, strict=True)
        )
        self._total = self._done + len(groups) + len(declared) + 1
        plan = tuple(self._planned(name, group) for name, group in groups.items())
        configured = tuple(self._unit(name, group, f"measuring {name}") for name, group in declared.items())
        self._step("measuring towers")
        mixed = towers.widening(groups, self._sessions)
        mixed += [towers.chosen(groups, each, self._sessions) for each in self._question.towers]
        rate = self._neighbours.rate_per_ms * 1000
        unjudged = Advice(
            verdict="",
            pays="hardly",
            samples=len(self._sample),
            sessions=self._sample.num_sessions,
            partitions=self._sample.num_partitions,
            duration_ms=self._sample.duration_ms,
            samples_per_session=self._neighbours.samples_per_session,
            samples_per_s=rate if np.isfinite(rate) else -1.0,
            batch_samples=self._question.batch_samples,
            features=features,
            groups=plan,
            configured=configured,
            apart=tuple(self._apart(groups)),
            towers=tuple(dict.fromkeys(mixed)),
            holds=tuple(self._hold(at, plan) for at in range(len(self._formed))),
            fill_ms=int(fill_ms(self._sample, self._question.batch_samples)),
            lookups_before=sum(each.unit.values_before for each in plan),
            lookups_after=sum(each.values_after for each in plan),
            bytes_before=sum(each.unit.bytes_before for each in plan),
            bytes_after=sum(each.bytes_after for each in plan),
        )
        return replace(unjudged, verdict=verdict.sentence(unjudged), pays=verdict.pays(unjudged))

    def _step(self, what: str, steps: int = 1) -> None:
        self._listener(what, self._done, self._total)
        self._done += steps

    def _unit(self, name: str, features: tuple[str, ...], what: str) -> UnitAdvice:
        self._step(what)
        if features not in self._units:
            self._units[features] = self._measured(name, features)
        return replace(self._units[features], name=name)

    def _measured(self, name: str, features: tuple[str, ...]) -> UnitAdvice:
        found = self._search.candidate(features)
        unchanged = 1 - float(found.any_changed.mean()) if len(found.any_changed) else 1.0
        left, session, partial = found.batch, found.session, found.partial_values
        before = max(1, left.values_before)
        return UnitAdvice(
            name=name,
            features=features,
            mean_length=left.values_before / max(1, left.samples),
            samples_per_session=self._neighbours.samples_per_session,
            unchanged=unchanged,
            share_exact=1 - session.values_after / before,
            share_windows=(session.values_after - partial) / before if partial is not None else 0.0,
            values_before=left.values_before,
            values_after=left.values_after,
            values_partial=partial,
            bytes_before=left.bytes_before,
            bytes_after=left.bytes_after,
            bytes_partial=left.bytes_with(partial) if partial is not None else None,
            at=tuple(self._at(formed, found, unchanged) for formed in self._formed),
        )

    def _at(self, formed: Formed, found: Candidate, unchanged: float) -> AtHold:
        last = formed is self._sessions
        partial = found.partial_values
        if not last and partial is not None:
            # Windows cost a pass over the values: only where they will be recommended.
            partial = windows(formed, found.unit) if found.is_partial else None
        before, held = found.batch.values_before, formed.samples_per_session
        length = before / max(1, found.batch.samples * found.batch.features)
        return AtHold(
            hold_ms=formed.hold_ms,
            samples_per_session=held,
            predicted=factor_of(held, unchanged),
            modelled=factor_of(self._modelled[formed.hold_ms], unchanged),
            measured=(found.session if last else exact(formed, found.unit, within_sessions=True)).factor,
            whole_batch=(found.batch if last else exact(formed, found.unit)).factor,
            partial_predicted=partial_factor_of(held, unchanged, length) if found.is_partial else None,
            partial=before / max(1, partial) if partial is not None else None,
        )

    def _planned(self, name: str, found: Candidate) -> Planned:
        unit = self._unit(name, found.features, f"measuring {name}")
        return Planned(unit=unit, form="partial" if found.is_partial else "exact", reason=verdict.reason(unit, found))

    def _apart(self, groups: Mapping[str, Candidate]) -> Sequence[Apart]:
        """Of what repeats, the pairs that come nearest to being one group, those with most ids at stake."""
        repeating = [name for name, group in groups.items() if group.session.factor >= verdict.REPEATS_FACTOR]
        nearest: dict[frozenset[str], tuple[str, str]] = {}
        for name in repeating:
            others = [other for other in repeating if other != name]
            if others:
                closest = max(others, key=lambda other: change_together(groups[name], groups[other]))
                nearest.setdefault(frozenset((name, closest)), (name, closest))
        weight = {pair: sum(groups[name].batch.values_before for name in pair) for pair in nearest.values()}
        ranked = sorted(weight, key=weight.__getitem__, reverse=True)[:_MOST_APART]
        return [self._compared(pair, groups) for pair in ranked]

    def _compared(self, pair: tuple[str, str], groups: Mapping[str, Candidate]) -> Apart:
        one, other = (groups[name] for name in pair)
        whole = self._search.merged(one, other)
        before, share = whole.batch.values_before, change_together(one, other)
        return Apart(
            groups=pair,
            change_together=share,
            factors=(one.batch.values_before / max(1, one.values), other.batch.values_before / max(1, other.values)),
            factor_as_one=before / max(1, whole.values),
            factor_apart=before / max(1, one.values + other.values),
            reason=verdict.apart(share, whole.values, one.values + other.values),
        )

    def _hold(self, at: int, plan: Sequence[Planned]) -> HoldAdvice:
        formed = self._formed[at]
        model = self._modelled[formed.hold_ms]
        return HoldAdvice(
            hold_ms=formed.hold_ms,
            samples_per_session=formed.samples_per_session,
            modelled_samples_per_session=model,
            wait_p50_ms=int(np.percentile(formed.wait_ms, 50)),
            wait_p99_ms=int(np.percentile(formed.wait_ms, 99)),
            predicted=_over(plan, lambda group: _chosen(group, at, group.unit.at[at].predicted, predicted=True)),
            modelled=_over(plan, lambda group: _modelled(group, model, at)),
            measured=_over(plan, lambda group: _chosen(group, at, group.unit.at[at].measured)),
            exact=_over(plan, lambda group: group.unit.at[at].measured),
            whole_batch=_over(plan, lambda group: _chosen(group, at, group.unit.at[at].whole_batch)),
        )


def _over(plan: Sequence[Planned], factor: Callable[[Planned], float]) -> float:
    """The factor of all groups together, each with its own."""
    before = sum(group.unit.values_before for group in plan)
    after = sum(group.unit.values_before / factor(group) for group in plan)
    return before / after if after else 1.0


def _chosen(group: Planned, at: int, exactly: float, *, predicted: bool = False) -> float:
    """The partial form's factor where it is recommended, else `exactly`."""
    here = group.unit.at[at]
    partial = here.partial_predicted if predicted else here.partial
    return partial if group.form == "partial" and partial is not None else exactly


def _modelled(group: Planned, samples_per_session: float, at: int) -> float:
    unit = group.unit
    if group.form == "partial":
        return partial_factor_of(samples_per_session, unit.unchanged, unit.mean_length / len(unit.features))
    return unit.at[at].modelled
