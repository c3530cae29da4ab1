"""Groups on the wire where others have broken: nothing in them, shared ids, and messages that lie about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from streams.errors import WireError
from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import deduplicate_windows
from streams.ikjt.windows import Group, PartialIkjt
from streams.minibatch import Lineage, MiniBatch
from streams.reshape import concat, slice_batch
from streams.wire import decode, encode
from tests.streams.batches import fixed_batch
from tests.streams.wire.test_codec import same_batch

SESSION = np.asarray([9, 9, 9, 2**63, 2**63], dtype=np.uint64)
ROWS = Jagged.from_lists([[1, 2], [1, 2], [2, 3], [4], [5]])


def batch_of(*groups: Group) -> MiniBatch:
    return replace(fixed_batch(), groups=groups)


def written_without_checks(batch: MiniBatch, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The message of a faulty or hostile writer: what it says is broken, its checksums are not."""
    with monkeypatch.context() as patch:
        patch.setattr(MiniBatch, "validate", lambda _: None)
        return encode(batch)


def windows(key: str = "a", rows: Jagged = ROWS) -> PartialIkjt:
    group = deduplicate_windows(key, {key: rows}, SESSION)
    assert isinstance(group, PartialIkjt)
    return group


def test_a_mini_batch_whose_rows_are_all_empty_comes_back_in_either_form() -> None:
    empty = Jagged.from_lists([[]] * 5)
    batch = batch_of(deduplicate("exact", {"a": empty, "b": empty}), windows("c", empty))
    decoded = decode(encode(batch))
    assert same_batch(decoded, batch)
    assert [group.num_values for group in decoded.groups] == [0, 0]
    assert [rows.lengths.tolist() for group in decoded.groups for rows in group.expand().values()] == [[0] * 5] * 3


def test_a_mini_batch_without_samples_keeps_its_groups_keys_and_columns() -> None:
    age = np.zeros((5, 1), np.float32)
    batch = batch_of(windows(), deduplicate("profile", {"city": ROWS}, age, ["age"]))
    none = slice_batch(batch, 5, 5)
    decoded = decode(encode(none))
    assert same_batch(decoded, none)
    assert [(group.keys, group.dense_names, group.num_samples) for group in decoded.groups] == [
        (("a",), (), 0),
        (("city",), ("age",), 0),
    ]
    assert same_batch(concat([decoded, batch, decoded]), batch)


def test_features_that_share_ids_keep_their_own_lists() -> None:
    clicked, viewed = [1, 2, 3], list(range(40))
    features = {"clicked": Jagged.from_lists([clicked] * 5), "viewed": Jagged.from_lists([viewed] * 5)}
    batch = batch_of(deduplicate("user", features), windows("seen", Jagged.from_lists([viewed] * 5)))
    user, seen = decode(encode(batch)).groups
    expanded = {key: rows.to_lists() for key, rows in (user.expand() | seen.expand()).items()}
    assert expanded == {"clicked": [clicked] * 5, "viewed": [viewed] * 5, "seen": [viewed] * 5}


def test_ids_keep_the_dtype_of_their_feature_however_few_bytes_they_take() -> None:
    of_any_size: list[list[list[int]]] = [[[1]] * 5, [[2**31 - 1]] * 5, [[]] * 5]
    for ids in of_any_size:
        rows = Jagged.from_lists(ids)
        narrow = Jagged(rows.values.astype(np.int32), rows.offsets)
        decoded = decode(encode(batch_of(deduplicate("n", {"narrow": narrow}), deduplicate("w", {"wide": rows}))))
        assert [
            group.expand()[key].values.dtype for group, key in zip(decoded.groups, ("narrow", "wide"), strict=True)
        ] == [
            np.dtype(np.int32),
            np.dtype(np.int64),
        ]


def exact(inverse: Sequence[int], offsets: Sequence[int] = (0, 1, 2, 3)) -> Ikjt:
    rows = Jagged(np.asarray([1, 2, 3]), np.asarray(offsets, np.int64))
    return Ikjt("g", {"a": rows}, np.asarray(inverse, np.int32))


def moved(start: Sequence[int], length: Sequence[int]) -> PartialIkjt:
    return replace(windows(), start=np.asarray(start, np.int32), length=np.asarray(length, np.int32))


THREE, TWO = Jagged.from_lists([[1], [2], [3]]), Jagged.from_lists([[1], [2]])
RIGHT = exact([0, 1, 2, 0, 0])
LIES: dict[str, tuple[str, Sequence[Group]]] = {
    "two entries of the inverse swapped": ("sample 1 uses row 2 before", [exact([0, 2, 1, 1, 1])]),
    "an inverse beyond the rows": ("sample 3 uses row 5; there are 3 rows", [exact([0, 1, 2, 5, 0])]),
    "an inverse below zero": ("sample 3 uses row -1; there are 3 rows", [exact([0, 1, 2, -1, 0])]),
    "fewer entries than samples": ("has 3 samples, the lineage 5", [exact([0, 1, 2])]),
    "more entries than samples": ("has 6 samples, the lineage 5", [exact([0, 1, 2, 0, 0, 0])]),
    "a row that no sample uses": ("samples use 2 rows, but there are 3", [exact([0, 1, 1, 1, 1])]),
    "a negative length": ("offsets decrease at row 1", [exact([0, 1, 2, 0, 0], [0, 4, 2, 3])]),
    "a length of 2^31 - 1": ("offsets end at 2147483649", [exact([0, 1, 2, 0, 0], [0, 1, 2, 2**31 + 1])]),
    "lengths that wrap around": ("offsets decrease", [exact([0, 1, 2, 0, 0], [0, 2**62, -(2**63), 3])]),
    "one feature with a row too few": ("b has 2 rows, a 3", [replace(RIGHT, features={"a": THREE, "b": TWO})]),
    "a key in two groups": ("feature a is there twice", [RIGHT, replace(RIGHT, group="h")]),
    "a group that is there twice": ("group g is there twice", [RIGHT, replace(RIGHT, features={"b": THREE})]),
    "a window beyond its buffer": (r"row 3 = \(9, 1\) leaves", [moved([0, 1, 3, 9], [2, 2, 1, 1])]),
    "a window across two buffers": (r"row 2 = \(2, 2\) leaves", [moved([0, 1, 2, 4], [2, 2, 2, 1])]),
    "a window of a million values": (r"row 3 = \(4, 1000000\) leaves", [moved([0, 1, 3, 4], [2, 2, 1, 10**6])]),
    "a window of a negative length": (r"row 3 = \(4, -1\) leaves", [moved([0, 1, 3, 4], [2, 2, 1, -1])]),
}


@pytest.mark.parametrize("name", LIES)
def test_what_is_not_true_of_a_group_is_neither_written_nor_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words, groups = LIES[name]
    batch = batch_of(*groups)
    with pytest.raises(ValueError, match=words):
        encode(batch)
    with pytest.raises(WireError, match=words):
        decode(written_without_checks(batch, monkeypatch))


def test_the_same_writer_without_a_lie_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(RIGHT, windows("b"))
    assert same_batch(decode(written_without_checks(batch, monkeypatch)), batch)


def test_a_window_that_is_moved_within_its_buffer_is_other_content() -> None:
    batch = batch_of(windows())
    assert windows().start.tolist() == [0, 1, 3, 4]
    shifted = batch_of(moved([1, 0, 3, 4], [2, 2, 1, 1]))
    shifted.validate()
    assert shifted.content_hash != batch.content_hash


def test_lineage_of_another_length_than_the_groups_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(windows())
    lineage = batch.lineage
    short = Lineage(**{name: getattr(lineage, name)[:4] for name in Lineage.__slots__})
    four = replace(batch, lineage=short, labels=batch.labels[:4], dense=batch.dense[:4])
    with pytest.raises(WireError, match="group a has 5 samples, the lineage 4"):
        decode(written_without_checks(four, monkeypatch))
