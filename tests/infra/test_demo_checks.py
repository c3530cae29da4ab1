"""What the demo counts, and that a broken count is noticed."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from infra.demo.account import Counts, account_checks, broken, law_checks
from infra.demo.measure import Measured, measure
from infra.demo.outputs import last_object, last_words, objects
from infra.demo.readback import Stored, in_trained_order, lineage_of
from infra.demo.synthetic import Laws, draw
from sessionizer.account import Account
from streams import wire
from streams.errors import InvariantError
from streams.ikjt.dedup import deduplicate
from streams.ikjt.jagged import Jagged
from streams.minibatch import Lineage, MiniBatch
from trainer.ledger import Entry, Kind, Line


def batch_of(sequence: int, offsets: list[int], histories: list[list[int]], labels: list[float]) -> MiniBatch:
    """A mini-batch of one session, user 7."""
    size = len(offsets)
    return MiniBatch(
        partition=0,
        sequence=sequence,
        watermark_ms=1_000,
        fingerprint=1,
        lineage=Lineage(
            offset=np.array(offsets, np.int64),
            event_id=np.array(offsets, np.uint64),
            session_id=np.full(size, 5, np.uint64),
            event_time_ms=np.array(offsets, np.int64),
            appended_ms=np.full(size, -1, np.int64),
        ),
        labels=np.array(labels, np.float32).reshape(-1, 1),
        dense=np.empty((size, 0), np.float32),
        groups=(
            deduplicate("user", {"user": Jagged.from_lists([[7]] * size)}),
            deduplicate("item", {"item": Jagged.from_lists([[offset] for offset in offsets])}),
            deduplicate("history", {"liked": Jagged.from_lists(histories)}),
        ),
    )


def stored(batch: MiniBatch) -> Stored:
    return Stored(batch.partition, 10 + batch.sequence, len(wire.encode(batch)), batch)


FIRST = stored(batch_of(0, [0, 1, 2], [[1, 2], [1, 2], [2, 3]], [1, 0, 1]))
SECOND = stored(batch_of(1, [3, 4], [[4], [4]], [0, 1]))


def line(step: int, *entries: Stored) -> Line:
    batches = tuple(
        Entry(each.partition, each.offset, each.batch.sequence, each.batch.content_hash, len(each.batch))
        for each in entries
    )
    return Line(step=step, epoch=1, kind=Kind.TRAINED, batches=batches)


def counts() -> Counts:
    account = Account(events=6, labelled=5, late=1, emitted=5, batches=2, sessions=2)
    return Counts(delivered=6, account=account, held=0, trained=5, skipped=0, trained_batches=2)


@pytest.fixture
def measured() -> Measured:
    return measure([[FIRST], [SECOND]], ("user", "item"))


def test_factors_are_ratios_of_sums_over_all_mini_batches(measured: Measured) -> None:
    assert measured.dedup_factor == pytest.approx({"user": 5 / 2, "item": 1.0, "history": 8 / 5})
    # [1 2] and [2 3] are windows of 1 2 3.
    assert measured.partial_factor["history"] == pytest.approx(8 / 4)
    assert measured.factors["history"].tolist() == pytest.approx([6 / 4, 2 / 1])


def test_bytes_are_those_of_the_topic_and_of_the_same_batches_expanded(measured: Measured) -> None:
    assert measured.wire_bytes == FIRST.num_bytes + SECOND.num_bytes
    assert measured.kjt_bytes == wire.kjt_bytes(FIRST.batch) + wire.kjt_bytes(SECOND.batch)


def test_the_logistic_regression_sees_the_batches_in_the_order_of_training(measured: Measured) -> None:
    samples, ne = measured.ne_curve
    assert samples.tolist() == [3, 5]
    assert ne[-1] == measured.ne_logistic_regression


def test_an_account_that_adds_up_passes_every_check(measured: Measured) -> None:
    assert broken(account_checks(counts(), measured)) == []


def without_one(account: Account, **changes: int) -> Account:
    return msgspec.structs.replace(account, **changes)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (replace(counts(), delivered=7), "events delivered = events read"),
        (replace(counts(), account=without_one(counts().account, late=0)), "events read = samples"),
        (replace(counts(), held=1), "samples = emitted + sampled out + shed + erased + held"),
        (replace(counts(), trained=4), "samples emitted = trained"),
        (replace(counts(), trained_batches=3), "mini-batches emitted"),
    ],
)
def test_one_event_too_many_or_too_few_breaks_a_check_by_name(wrong: Counts, named: str, measured: Measured) -> None:
    assert broken(account_checks(wrong, measured))[0].name.startswith(named)


def test_a_sample_trained_twice_is_noticed() -> None:
    twice = measure([[FIRST], [SECOND], [SECOND]], ("user",))
    names = [check.name for check in broken(account_checks(counts(), twice))]
    assert "each sample once: different (partition, offset) = samples" in names


def test_mini_batches_come_back_in_the_ledgers_order() -> None:
    steps = in_trained_order([FIRST, SECOND], [line(1, SECOND), line(2, FIRST)])
    assert steps == [[SECOND], [FIRST]]
    assert lineage_of(steps) == [(0, 3), (0, 4), (0, 0), (0, 1), (0, 2)]


def test_a_ledger_that_names_another_content_is_refused() -> None:
    other = stored(batch_of(1, [3, 4], [[4], [4]], [1, 1]))
    with pytest.raises(InvariantError, match="holds another there"):
        in_trained_order([FIRST, SECOND], [line(1, other)])
    with pytest.raises(InvariantError, match="holds none there"):
        in_trained_order([FIRST], [line(1, SECOND)])


def test_the_laws_are_checked_against_the_formula_and_the_bound() -> None:
    log = draw(Laws(samples=20_000))
    fitting = {**log.expected_factors(), "user": 20.0}
    fine = replace(measure([[FIRST]], ("user",)), dedup_factor=fitting, sessions=log.sessions)
    best, _ = log.best_ne()
    assert broken(law_checks(log, fine, best + 0.02)) == []
    too_good = broken(law_checks(log, fine, best - 0.1))
    assert [check.name for check in too_good] == ["NE is not below the best achievable"]
    off = replace(fine, dedup_factor={**fitting, "taste": fitting["taste"] * 1.3}, sessions=log.sessions + 1)
    assert len(broken(law_checks(log, off, best))) == 2


def test_summaries_are_found_among_other_lines_and_half_ones() -> None:
    lines = ["starting", '{"a": 1, "b": 2}', '{"event": "progress"}', '{"a": 3, "b": 4}', "end", '{"a": 5, "b"']
    assert last_object(lines, {"a", "b"}, "child") == {"a": 3, "b": 4}
    assert [found["a"] for found in objects(lines, {"a"})] == [1, 3]
    with pytest.raises(InvariantError, match="child ended well but printed no summary with z"):
        last_object(lines, {"z"}, "child")


def test_last_words_are_readable_and_short() -> None:
    logged = {"event": "failed", "level": "error", "logger": "x", "timestamp": "t", "partition": 3}
    logged["exception"] = [{"exc_type": "ValueError", "exc_value": "no", "frames": ["a" * 9_000]}]
    lines = ["plain text", '{"event":"progress","step":1}', json.dumps(logged), '{"event":"progress","step":2}']
    assert last_words(lines).splitlines() == ["  plain text", "  error failed partition=3 ValueError: no"]
