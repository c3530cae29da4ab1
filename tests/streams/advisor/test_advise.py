"""Advice on streams of known laws: predicted within 10 % of what is measured, and measured within 10 % of the truth."""

from __future__ import annotations

import pytest

from streams.advisor import Advice, advise
from streams.advisor.advise import Question
from streams.advisor.hold import SESSION
from streams.advisor.neighbours import factor_of, partial_factor_of
from tests.streams.advisor.streams import Drawn, drawn

LAWS = Drawn(
    sessions=1_500, redrawn={"user": 1.0, "taste": 0.9, "place": 0.5, "ad": 0.0}, shifted={"seen": 0.6}, length=20
)
UNCHANGED = {**LAWS.redrawn, **LAWS.shifted}
QUESTION = Question(batch_samples=64, groups={"mine": ("taste", "place")}, towers=(("user", "taste"),))


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(drawn(LAWS, 64), QUESTION)


def test_d_is_the_one_of_the_law(advice: Advice) -> None:
    for feature in advice.features:
        assert feature.unchanged == pytest.approx(UNCHANGED[feature.name], abs=0.01)


def test_factors_agree_with_the_formula_and_the_law_at_every_hold_time(advice: Advice) -> None:
    for feature in advice.features:
        for at in feature.at:
            law = factor_of(at.samples_per_session, UNCHANGED[feature.name])
            assert at.predicted == pytest.approx(at.measured, rel=0.1)
            assert at.measured == pytest.approx(law, rel=0.1)
            assert at.whole_batch >= at.measured * 0.999


def test_the_model_knows_the_curve_from_s_and_the_rate_alone(advice: Advice) -> None:
    for hold in advice.holds:
        if hold.hold_ms > 2 * advice.fill_ms or hold.hold_ms == SESSION:
            assert hold.modelled == pytest.approx(hold.measured, rel=0.1)
    factors = [hold.measured for hold in advice.holds]
    assert factors == sorted(factors)
    assert factors[-1] > 1.5 * factors[0]


def test_windows_of_a_history_are_predicted_too(advice: Advice) -> None:
    seen = next(group for group in advice.groups if group.unit.name == "seen")
    assert seen.form == "partial"
    for at in seen.unit.at:
        law = partial_factor_of(at.samples_per_session, 0.6, 20)
        assert at.partial == pytest.approx(law, rel=0.1)
        assert at.partial_predicted == pytest.approx(law, rel=0.1)


def test_every_feature_is_in_one_group_and_the_totals_are_theirs(advice: Advice) -> None:
    names = [name for group in advice.groups for name in group.unit.features]
    assert sorted(names) == sorted(feature.name for feature in advice.features)
    assert advice.lookups_before == sum(feature.values_before for feature in advice.features)
    assert advice.lookups_after == sum(group.values_after for group in advice.groups)


def test_groups_of_the_configuration_are_measured_beside_what_is_recommended(advice: Advice) -> None:
    (mine,) = advice.configured
    assert mine.name == "mine"
    assert mine.unchanged == pytest.approx(0.45, abs=0.02)
    assert [group.unit.features for group in advice.groups if len(group.unit.features) > 1] == []


def test_pairs_that_are_better_apart_say_why(advice: Advice) -> None:
    assert advice.apart
    for pair in advice.apart:
        assert pair.factor_as_one <= pair.factor_apart
        assert pair.reason


def test_a_tower_that_was_asked_for_is_there(advice: Advice) -> None:
    assert ("user", "taste") in [tower.groups for tower in advice.towers]


def test_equal_samples_give_equal_advice(advice: Advice) -> None:
    assert advise(drawn(LAWS, 64), QUESTION) == advice


def test_longer_holds_cost_freshness(advice: Advice) -> None:
    waits = [hold.wait_p50_ms for hold in advice.holds[:-1]]
    assert waits == sorted(waits)


def test_it_is_said_whether_it_pays(advice: Advice) -> None:
    assert advice.pays == "yes"
    assert advice.verdict.startswith("Deduplication pays here: sessions of 16.")
    short = advise(drawn(Drawn(samples_per_session=1.3, redrawn={"user": 1.0, "ad": 0.0}), 64), QUESTION_WITHOUT)
    assert short.pays == "hardly"
    assert "Sessions are too short" in short.verdict
    restless = advise(drawn(Drawn(redrawn={"ad": 0.1}), 64), QUESTION_WITHOUT)
    assert "change too often: only 10 % of the ids" in restless.verdict


QUESTION_WITHOUT = Question(batch_samples=64)


def test_progress_reaches_its_end() -> None:
    told: list[tuple[str, int, int]] = []
    advise(drawn(Drawn(sessions=20, redrawn={"user": 1.0})), QUESTION_WITHOUT, lambda *step: told.append(step))
    assert all(done < total for _, done, total in told)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_a_sample_of_one_event_has_advice_too() -> None:
    alone = advise(drawn(Drawn(sessions=1, samples_per_session=1.0, redrawn={"user": 1.0})), QUESTION_WITHOUT)
    assert alone.factor == 1.0
    assert alone.pays == "hardly"
