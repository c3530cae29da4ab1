"""A tower over several groups gains what is jointly unchanged."""

from __future__ import annotations

import pytest

from streams.advisor.grouping import Candidate, Search
from streams.advisor.hold import SESSION, Formed, form
from streams.advisor.neighbours import Neighbours
from streams.advisor.sample import Sample
from streams.advisor.towers import chosen, widening
from streams.errors import ConfigError
from tests.streams.advisor.streams import Drawn, drawn


def prepared(sample: Sample) -> tuple[dict[str, Candidate], Formed]:
    sessions = form(sample, SESSION, 1024)
    search = Search(sample, Neighbours.of(sample), sessions)
    return {name: search.candidate((name,)) for name in sample.columns}, sessions


def test_thirty_features_that_are_redrawn_independently_leave_a_joint_tower_almost_nothing() -> None:
    laws = Drawn(redrawn={f"user{number}": 0.95 for number in range(30)}, shifted={"history": 0.9}, length=2)
    groups, sessions = prepared(drawn(laws, 1024))
    widest = widening(groups, sessions)[-1]
    assert widest.num_features == 31
    assert widest.unchanged == pytest.approx(0.9 * 0.95**30, abs=0.02)
    assert widest.measured == pytest.approx(1.2, abs=0.05)
    assert widest.predicted == pytest.approx(widest.measured, rel=0.02)


def test_a_tower_that_loses_nothing_takes_the_place_of_the_narrower_one() -> None:
    laws = Drawn(redrawn={"user": 1.0, "country": 1.0, "taste": 0.8, "ad": 0.0}, length=1)
    groups, sessions = prepared(drawn(laws))
    found = widening(groups, sessions)
    assert [set(tower.groups) for tower in found] == [{"user", "country"}, {"user", "country", "taste"}]


def test_a_tower_of_ones_own_is_over_the_groups_of_its_features() -> None:
    groups, sessions = prepared(drawn(Drawn(redrawn={"user": 1.0, "taste": 0.8}, length=1)))
    tower = chosen(groups, ["taste", "user"], sessions)
    assert tower.groups == ("taste", "user")
    assert tower.measured == pytest.approx(groups["taste"].session.factor, rel=0.05)
    with pytest.raises(ConfigError, match="--tower names shoe, which is no feature; known: user, taste"):
        chosen(groups, ["shoe"], sessions)
