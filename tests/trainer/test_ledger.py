"""Lines of the ledger and what follows from them: bytes, positions, order, lineage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import InvariantError
from trainer.ledger import (
    Entry,
    Kind,
    LedgerDamageError,
    Line,
    Position,
    after,
    decode,
    encode,
    lineage,
    positions,
    skipped,
    step_seed,
)

GOLDEN = bytes.fromhex(
    "9a000000cb6fe82a"
    "7b2273746570223a372c2265706f6368223a322c226b696e64223a22747261696e6564222c2262617463686573223a5b5b302c31322c362c"
    "31383434363734343037333730393535313631352c3235365d5d2c2277617465726d61726b5f6d73223a313730303030303030303030302c"
    "22726e67223a39393939393939393939392c22726561736f6e223a22222c2276657273696f6e223a317d"
)
LINE = Line(
    step=7,
    epoch=2,
    kind=Kind.TRAINED,
    batches=(Entry(0, 12, 6, 2**64 - 1, 256),),
    watermark_ms=1_700_000_000_000,
    rng=99_999_999_999,
)


def line(step: int, *sequences: tuple[int, int], kind: Kind = Kind.TRAINED) -> Line:
    """A line with mini-batches (partition, sequence) at offset 2 * sequence."""
    entries = tuple(Entry(partition, 2 * sequence, sequence, 0, 8) for partition, sequence in sequences)
    return Line(step=step, epoch=1, kind=kind, batches=entries)


def test_the_bytes_of_version_1_never_change() -> None:
    assert encode(LINE) == GOLDEN
    assert decode(GOLDEN) == ([LINE], len(GOLDEN))


@given(st.integers(0, 3 * len(GOLDEN) - 1))
def test_a_tail_torn_at_any_byte_leaves_the_whole_lines(size: int) -> None:
    assert decode((GOLDEN * 3)[:size]) == ([LINE] * (size // len(GOLDEN)), size // len(GOLDEN) * len(GOLDEN))


@given(st.integers(0, len(GOLDEN) - 1), st.integers(1, 255))
def test_a_last_line_with_any_byte_changed_is_a_torn_tail(place: int, change: int) -> None:
    damaged = bytearray(GOLDEN * 2)
    damaged[len(GOLDEN) + place] ^= change
    assert decode(bytes(damaged)) == ([LINE], len(GOLDEN))


@given(st.integers(4, len(GOLDEN) - 1), st.integers(1, 255))
def test_damage_with_whole_lines_behind_it_is_refused(place: int, change: int) -> None:
    damaged = bytearray(GOLDEN * 3)
    damaged[len(GOLDEN) + place] ^= change
    with pytest.raises(LedgerDamageError, match=f"bytes from {len(GOLDEN)} on are damaged"):
        decode(bytes(damaged))


def test_a_line_of_a_newer_version_is_refused() -> None:
    newer = Line(step=1, epoch=1, kind=Kind.TRAINED, version=2)
    with pytest.raises(LedgerDamageError, match="version 2"):
        decode(encode(newer))


def test_positions_are_the_next_ones_and_a_function_of_the_lines() -> None:
    found = positions({1: Position(next_offset=3, next_sequence=2)}, [line(5, (0, 0), (1, 2)), line(6, (0, 1))])
    assert found == {0: Position(next_offset=3, next_sequence=2), 1: Position(next_offset=5, next_sequence=3)}


def test_a_skipped_step_moves_positions_once() -> None:
    lines = [line(1, (0, 0)), line(1, (0, 0), kind=Kind.SKIPPED), line(2, (0, 1))]
    assert positions({}, lines) == {0: Position(next_offset=3, next_sequence=2)}
    assert skipped(lines) == {1}


def test_lines_that_leave_out_a_sequence_belong_to_another_checkpoint() -> None:
    with pytest.raises(InvariantError, match="step 2 trains partition 0 sequence 2"):
        positions({}, [line(1, (0, 0)), line(2, (0, 2))])


def test_what_stands_after_a_checkpoint_is_repeated() -> None:
    lines = [line(step, (0, step)) for step in range(1, 6)]
    assert [each.step for each in after(lines, 3)] == [4, 5]
    assert after(lines, 5) == []


def test_a_ledger_that_begins_after_the_checkpoint_is_refused() -> None:
    with pytest.raises(InvariantError, match="goes on at step 4, the checkpoint ends at 2"):
        after([line(4, (0, 4))], 2)


def test_a_rewind_makes_later_steps_void() -> None:
    lines = [line(1, (0, 0)), line(2, (0, 1)), line(3, (0, 2)), line(1, kind=Kind.REWIND), line(2, (1, 0))]
    assert [(each.step, each.batches[0].partition) for each in lineage(lines)] == [(1, 0), (2, 1)]


def test_a_step_that_stands_twice_has_two_writers() -> None:
    with pytest.raises(InvariantError, match="step 1 stands in the ledger twice"):
        lineage([line(1, (0, 0)), line(1, (0, 0))])


def test_a_missing_step_is_found() -> None:
    with pytest.raises(InvariantError, match="step 3 follows step 1"):
        lineage([line(1, (0, 0)), line(3, (0, 1))])


def test_the_lineage_of_an_earlier_model_ends_at_its_step() -> None:
    assert [each.step for each in lineage([line(1, (0, 0)), line(2, (0, 1))], upto=1)] == [1]


def test_seeds_of_steps_differ_and_never_change() -> None:
    seeds = {step_seed(seed, step) for seed in range(10) for step in range(100)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert step_seed(3, 7) == step_seed(3, 7)
