"""The synthetic streams obey their laws, and a sample is the same in either order."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.floor import bits_of_float, floor_bytes
from benchmarks.rm import BATCH, STREAMS, Stream
from streams.minibatch import MiniBatch


@pytest.fixture(scope="module")
def stream() -> Stream:
    return Stream(STREAMS["rm1"])


@pytest.fixture(scope="module")
def clustered(stream: Stream) -> MiniBatch:
    return stream.clustered(0)


def test_batches_are_valid_and_of_full_size(clustered: MiniBatch) -> None:
    clustered.validate()
    assert len(clustered) == BATCH
    assert [group.group for group in clustered.groups] == ["history", *(f"user{f}" for f in range(30)), "item"]


def test_a_session_has_sixteen_and_a_half_samples_clustered_and_little_more_than_one_in_time_order(
    stream: Stream, clustered: MiniBatch
) -> None:
    in_time = stream.in_time_order(0).lineage.session_id
    assert 14 < BATCH / clustered.num_sessions < 19
    assert 1.1 < BATCH / len(np.unique(in_time)) < 1.2


def test_rates_and_means_are_those_of_the_laws(clustered: MiniBatch) -> None:
    user = [group for group in clustered.groups if group.group.startswith("user")]
    changes = np.mean([group.num_rows - clustered.num_sessions for group in user]) / (BATCH - clustered.num_sessions)
    assert abs(changes - 0.05) < 0.003
    assert abs(np.mean([rows.lengths.mean() for group in user for rows in group.features.values()]) - 20.5) < 0.5
    assert abs(float(clustered.labels.mean()) - 0.05) < 0.015
    assert abs(float(clustered.dense[:, 10:].std()) - 1) < 0.03


def test_histories_shift_together_by_one_id_at_a_time(clustered: MiniBatch) -> None:
    history = clustered.groups[0]
    rows = [history.features[f"history{h}"].to_lists() for h in range(3)]
    session = clustered.lineage.session_id[np.unique(history.inverse, return_index=True)[1]]
    for u in np.flatnonzero(session[1:] == session[:-1]):
        assert all(feature[u][1:] == feature[u + 1][:-1] for feature in rows)
        assert len({len(feature[u]) for feature in rows}) == 1


def test_a_sample_is_the_same_in_either_order(stream: Stream, clustered: MiniBatch) -> None:
    # A batch of everything would be large: the stream is asked for these samples in another order.
    reversed_order = stream._batch(np.arange(BATCH)[::-1], 0)
    assert np.array_equal(reversed_order.dense[::-1], clustered.dense)
    for ours, theirs in zip(clustered.groups, reversed_order.groups, strict=True):
        for key, rows in theirs.expand().items():
            back = rows.take(np.arange(BATCH)[::-1])
            assert np.array_equal(back.values, ours.expand()[key].values)


def test_equal_seeds_give_equal_streams_and_others_other_ones(clustered: MiniBatch) -> None:
    assert Stream(STREAMS["rm1"]).clustered(0).content_hash == clustered.content_hash
    assert Stream(STREAMS["rm1"], seed=1).clustered(0).content_hash != clustered.content_hash


def test_the_floor_counts_what_was_drawn(clustered: MiniBatch) -> None:
    floor = floor_bytes(STREAMS["rm1"], BATCH, clustered.num_sessions)
    assert floor["all"] == pytest.approx(sum(each for name, each in floor.items() if name != "all"))
    assert 150 < floor["ids"] < floor["all"] < 220


def test_a_normal_float32_has_the_entropy_that_its_definition_gives() -> None:
    # Counted instead of integrated: the entropy of the exponents, and 23 bits whose distribution is nearly uniform.
    values = np.random.default_rng(0).standard_normal(1_000_000)
    exponents = np.unique(np.floor(np.log2(np.abs(values))), return_counts=True)[1] / len(values)
    counted = 1 + 23 - float((exponents * np.log2(exponents)).sum())
    assert counted - 0.15 < bits_of_float() < counted
