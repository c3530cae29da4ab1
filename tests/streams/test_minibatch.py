"""Mini-batches: sessions, the content hash, and what does not fit together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.ikjt.jagged import Jagged
from streams.ikjt.windows import PartialIkjt
from streams.minibatch import MiniBatch
from tests.streams.batches import fixed_batch, fixed_partial_batch, mini_batches


def with_lineage(**columns: object) -> MiniBatch:
    batch = fixed_batch()
    return replace(batch, lineage=replace(batch.lineage, **columns))  # type: ignore[arg-type]


def test_neighbours_of_one_session_are_counted_once() -> None:
    assert fixed_batch().num_sessions == 2
    assert with_lineage(session_id=np.asarray([1, 1, 2, 1, 1], dtype=np.uint64)).num_sessions == 3


def test_where_and_when_a_sample_was_read_is_not_its_content() -> None:
    again = with_lineage(offset=np.zeros(5, dtype=np.int64), appended_ms=np.ones(5, dtype=np.int64))
    moved = replace(again, partition=9, sequence=0, watermark_ms=0, fingerprint=0)
    assert moved.content_hash == fixed_batch().content_hash


def test_the_form_of_a_group_is_not_its_content() -> None:
    batch = fixed_partial_batch()
    *_, history, _ = batch.groups
    exact = replace(batch, groups=tuple(group.to_exact() for group in batch.groups))
    assert isinstance(history, PartialIkjt)
    assert exact.content_hash == batch.content_hash


def test_dense_columns_of_a_group_are_content_and_so_are_their_names() -> None:
    batch = fixed_partial_batch()
    *others, profile = batch.groups
    assert profile.dense is not None
    for changed in (replace(profile, dense=-profile.dense), replace(profile, dense_names=("age", "wealth"))):
        assert replace(batch, groups=(*others, changed)).content_hash != batch.content_hash


def test_any_other_change_changes_the_content() -> None:
    batch = fixed_batch()
    user, item = (group.to_exact() for group in batch.groups)
    values = item.features["item"]
    changed = [
        replace(batch, labels=1 - batch.labels),
        replace(batch, dense=batch.dense + 1),
        with_lineage(event_id=batch.lineage.event_id[::-1]),
        with_lineage(session_id=batch.lineage.session_id[::-1]),
        with_lineage(event_time_ms=batch.lineage.event_time_ms + 1),
        replace(batch, groups=(item, user)),
        replace(batch, groups=(user, replace(item, features={"other": values}))),
        replace(batch, groups=(user, replace(item, features={"item": Jagged(values.values + 1, values.offsets)}))),
        # The same bytes, told apart by their shape, by their type, and by which name holds which letters.
        replace(batch, labels=np.ascontiguousarray(batch.labels.reshape(1, -1))),
        replace(batch, labels=batch.labels.view(np.int32)),
        replace(batch, groups=(user, replace(item, group=f"{item.group}i", features={"tem": values}))),
    ]
    assert len({batch.content_hash, *(other.content_hash for other in changed)}) == 1 + len(changed)


@settings(max_examples=100, deadline=None)
@given(mini_batches(), st.data())
def test_rows_given_to_the_wrong_samples_are_refused_or_are_other_content(
    batch: MiniBatch, data: st.DataObject
) -> None:
    restless = [g for g, group in enumerate(batch.groups) if group.num_rows > 1]
    if not restless:
        return
    g = data.draw(st.sampled_from(restless))
    group = batch.groups[g]
    one = data.draw(st.integers(0, len(batch) - 1))
    other = data.draw(st.sampled_from(np.flatnonzero(group.inverse != group.inverse[one]).tolist()))
    inverse = group.inverse.copy()
    inverse[[one, other]] = inverse[[other, one]]
    groups = list(batch.groups)
    groups[g] = replace(group, inverse=inverse)
    swapped = replace(batch, groups=tuple(groups))
    try:
        swapped.validate()
    except ValueError as error:
        assert f"group {group.group}: sample" in str(error)  # noqa: PT017  (either outcome is right)
        return
    assert swapped.content_hash != batch.content_hash


def test_what_does_not_fit_together_is_refused_by_name() -> None:
    batch = fixed_batch()
    batch.validate()
    with pytest.raises(ValueError, match=r"lineage.event_id must be \[5\] uint64, not \(5,\) int64"):
        with_lineage(event_id=np.zeros(5, dtype=np.int64)).validate()
    with pytest.raises(ValueError, match=r"lineage.appended_ms must be \[5\] int64, not \(4,\)"):
        with_lineage(appended_ms=np.zeros(4, dtype=np.int64)).validate()
    with pytest.raises(ValueError, match=r"dense must be \[5, …\] float32, not \(5,\)"):
        replace(batch, dense=batch.dense[:, 0]).validate()
    with pytest.raises(ValueError, match="group item is there twice"):
        replace(batch, groups=(batch.groups[1], batch.groups[1])).validate()
    partial = fixed_partial_batch()
    twice = replace(partial.groups[3].to_exact(), group="again", features={"town": Jagged.from_lists([[8], [9]])})
    with pytest.raises(ValueError, match="dense column age is there twice"):
        replace(partial, groups=(*partial.groups, twice)).validate()
    with pytest.raises(ValueError, match="partition -1"):
        replace(batch, partition=-1).validate()
    few = replace(batch.groups[1], inverse=batch.groups[1].inverse[:4])
    with pytest.raises(ValueError, match="group item has 4 samples, the lineage 5"):
        replace(batch, groups=(few,)).validate()


def test_a_batch_shows_a_line_for_itself_and_one_for_each_group() -> None:
    assert repr(fixed_partial_batch()).splitlines() == [
        "MiniBatch(partition 3, sequence 41; 5 samples in 2 sessions, 1 labels, 2 dense columns",
        "  Ikjt(user: history, tags; 5 samples, 3 rows, 6 values, factor 2.33)",
        "  Ikjt(item: item; 5 samples, 5 rows, 5 values, factor 1.00)",
        "  PartialIkjt(clicks: clicks, clicked_at; 5 samples, 5 windows, 10 values, factor 1.80)",
        "  Ikjt(profile: city; 5 samples, 2 rows, 2 values, factor 2.50))",
    ]
