"""AUC against its definition: pairs of a positive and a negative, ties half."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.auc import LifetimeAuc, auc_of, bins_of

F32 = npt.NDArray[np.float32]
SAMPLES = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=30)


def by_pairs(scores: F32, labels: F32) -> float | None:
    pairs = [(p, n) for p in scores[labels > 0.5] for n in scores[labels < 0.5]]
    return sum((p > n) + 0.5 * (p == n) for p, n in pairs) / len(pairs) if pairs else None


def arrays(samples: list[tuple[int, bool]]) -> tuple[F32, F32]:
    return np.asarray([s for s, _ in samples], np.float32), np.asarray([y for _, y in samples], np.float32)


@given(SAMPLES)
def test_auc_is_the_share_of_ordered_pairs(samples: list[tuple[int, bool]]) -> None:
    assert auc_of(*arrays(samples)) == pytest.approx(by_pairs(*arrays(samples)))


@given(SAMPLES, st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(samples: list[tuple[int, bool]], random: object) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert auc_of(*arrays(shuffled)) == auc_of(*arrays(samples))


@pytest.mark.parametrize("labels", [[], [0, 0, 0], [1, 1]])
def test_one_class_has_no_auc(labels: list[int]) -> None:
    assert auc_of(np.zeros(len(labels), np.float32), np.asarray(labels, np.float32)) is None
    lifetime = LifetimeAuc()
    lifetime.update(np.zeros(len(labels), np.float32), np.asarray(labels, np.float32))
    assert lifetime.value() == (None, 0.0)


def test_bins_rise_with_the_score() -> None:
    scores = np.sort(np.random.default_rng(0).normal(0, 5, 10_000).astype(np.float32))
    assert np.all(np.diff(bins_of(scores)) >= 0)
    assert bins_of(np.asarray([-0.0, 0.0], np.float32)).tolist() == [32768, 32768]


def test_beyond_its_exact_samples_the_lifetime_auc_keeps_within_its_stated_error() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 20_000).astype(np.float32)
    scores = (rng.normal(size=20_000) + labels).astype(np.float32)
    exact, binned = LifetimeAuc(20_000), LifetimeAuc(1_000)
    for start in range(0, 20_000, 700):
        part = slice(start, start + 700)
        exact.update(scores[part], labels[part])
        binned.update(scores[part], labels[part])
    truth, no_error = exact.value()
    value, error = binned.value()
    assert truth is not None
    assert value is not None
    assert no_error == 0.0
    assert 0 < error < 0.002
    assert abs(value - truth) <= error
    assert truth == auc_of(scores, labels)


@pytest.mark.parametrize("exact_samples", [10, 1_000])
def test_a_restored_lifetime_auc_continues_exactly(exact_samples: int) -> None:
    rng = np.random.default_rng(2)
    one = LifetimeAuc(exact_samples)
    for _ in range(5):
        one.update(rng.normal(size=7).astype(np.float32), rng.integers(0, 2, 7).astype(np.float32))
        other = LifetimeAuc(exact_samples)
        other.load_state(one.state())
        assert other.value() == one.value()
        one = other
