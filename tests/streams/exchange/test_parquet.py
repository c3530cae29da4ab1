"""Files of mini-batches: every bit comes back, a stored file stays readable, damage is refused in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.errors import WireError
from streams.exchange import parquet
from streams.exchange.arrow import from_arrow, to_arrow
from streams.exchange.parquet import checksum, read_parquet, write_parquet
from streams.ikjt.windows import PartialIkjt
from streams.minibatch import MiniBatch
from streams.reshape import slice_batch
from tests.streams.batches import fixed_batch, fixed_partial_batch, mini_batches
from tests.streams.wire.test_codec import same_batch

GOLDEN = Path(__file__).parent / "golden_v1.parquet"
BATCH = fixed_partial_batch()


@settings(max_examples=60, deadline=None)
@given(mini_batches())
def test_a_batch_of_any_form_comes_back_from_a_file_bit_by_bit(batch: MiniBatch) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "batch.parquet"
        assert write_parquet(path, [batch]) == 1
        (back,) = read_parquet(path)
    assert same_batch(back, batch)
    assert back.content_hash == batch.content_hash
    assert all(column.flags.writeable for column in (back.labels, back.dense, back.lineage.offset))


def test_batches_of_one_schema_share_a_file_whatever_their_size_and_form(tmp_path: Path) -> None:
    exact = replace(BATCH, groups=tuple(group.to_exact() for group in BATCH.groups), sequence=42)
    batches = [BATCH, exact, slice_batch(BATCH, 0, 0), slice_batch(BATCH, 3, 5)]
    path = tmp_path / "batches.parquet"
    assert write_parquet(path, iter(batches)) == 4
    back = list(read_parquet(path))
    assert [same_batch(a, b) for a, b in zip(back, batches, strict=True)] == [True] * 4
    assert pq.ParquetFile(path).num_row_groups == 4


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    path = str(tmp_path / "batch.parquet")
    assert write_parquet(path, [BATCH]) == 1
    assert [same_batch(each, BATCH) for each in read_parquet(path)] == [True]


def test_a_stored_file_of_version_1_is_read_as_what_was_written() -> None:
    plain, partial = read_parquet(GOLDEN)
    assert same_batch(plain, replace(BATCH, groups=tuple(group.to_exact() for group in BATCH.groups)))
    assert same_batch(partial, BATCH)


def test_every_bit_of_a_float_survives_that_of_nan_too(tmp_path: Path) -> None:
    bits = np.asarray([0x7FC00001, 0x7FC00002, 0xFFC00001, 0x80000000, 0x00000001], np.uint32)
    batch = replace(BATCH, labels=bits.view(np.float32).reshape(5, 1))
    write_parquet(tmp_path / "f", [batch])
    (back,) = read_parquet(tmp_path / "f")
    assert back.labels.view(np.uint32).reshape(5).tolist() == bits.tolist()


def test_other_tools_see_list_columns_and_an_inverse(tmp_path: Path) -> None:
    write_parquet(tmp_path / "f", [BATCH])
    (line,) = pq.read_table(tmp_path / "f").to_pylist()
    user = line["groups"]["user"]
    assert user["inverse"] == [0, 0, 0, 1, 2]
    assert user["features"]["history"] == [[70_001, 70_002], [], [-5]]
    assert user["windows"] is None
    assert line["groups"]["clicks"]["windows"][0] == {"start": 0, "length": 2}
    assert line["groups"]["profile"]["dense"] == {"age": [30.0, 41.0], "income": [0.5, -0.0]}


def test_what_does_not_fit_into_a_file_is_refused_and_leaves_none(tmp_path: Path) -> None:
    path = tmp_path / "f"
    wide = replace(BATCH, labels=np.zeros((5, 2), np.float32))
    with pytest.raises(
        ValueError, match=r"mini-batch 1 has labels of .*, the first one of .*; write it to a file of its"
    ):
        write_parquet(path, [BATCH, wide])
    with pytest.raises(ValueError, match="mini-batch 1 has no labels, which the first one has"):
        write_parquet(path, [BATCH, replace(BATCH, labels=np.zeros((5, 0), np.float32))])
    with pytest.raises(ValueError, match="mini-batch 1 has groups of "):
        write_parquet(path, [BATCH, fixed_batch()])
    with pytest.raises(ValueError, match="no mini-batches to write"):
        write_parquet(path, [])
    with pytest.raises(ValueError, match="partition -1"):
        write_parquet(path, [replace(BATCH, partition=-1)])
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_fails_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_parquet(path, [BATCH])

    def failing() -> Iterator[MiniBatch]:
        yield fixed_batch()
        raise KeyError

    with pytest.raises(KeyError):
        write_parquet(path, failing())
    assert [same_batch(back, BATCH) for back in read_parquet(path)] == [True]
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def stored(path: Path, line: pa.RecordBatch) -> Path:
    """A line in a file whose footer is sealed as ours are, whatever the line is."""
    pq.write_table(pa.Table.from_batches([line]), path)
    with path.open("r+b") as file:
        parquet._seal(file)
    return path


def signed(batch: MiniBatch, of: MiniBatch) -> pa.RecordBatch:
    """The line of a batch with the checksum of another, or of itself."""
    column: Any = pa.array([checksum(of)], pa.uint64())
    return to_arrow(batch).append_column("checksum", column)


def test_a_file_of_another_writer_is_read_through_arrow(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_batches([to_arrow(BATCH)]), tmp_path / "f")
    with pytest.raises(WireError, match=r"not written by streams.exchange.parquet; use pyarrow.parquet and arrow"):
        list(read_parquet(tmp_path / "f"))
    (line,) = pq.read_table(tmp_path / "f").to_batches()
    assert same_batch(from_arrow(line), BATCH)


@settings(max_examples=60, deadline=None)
@given(mini_batches(), mini_batches())
def test_batches_have_one_checksum_only_if_they_are_the_same(left: MiniBatch, right: MiniBatch) -> None:
    assert (checksum(left) == checksum(right)) == same_batch(left, right)
    assert checksum(left) == checksum(replace(left))


def test_an_inverse_in_range_that_names_the_wrong_rows_is_refused(tmp_path: Path) -> None:
    item = BATCH.groups[1].to_exact()
    swapped = replace(item, features={"item": item.features["item"].take(np.asarray([1, 0, 2, 3, 4]))})
    wrong = replace(BATCH, groups=(BATCH.groups[0], swapped, *BATCH.groups[2:]))
    path = stored(tmp_path / "f", signed(wrong, BATCH))
    with pytest.raises(WireError, match=r"mini-batch 0 cannot be read: column checksum is [0-9a-f]{16}, but what"):
        list(read_parquet(path))


def test_what_is_no_file_of_mini_batches_is_refused_in_words(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("offset,label\n1,0\n")
    with pytest.raises(WireError, match="text: mini-batch 0 cannot be read: it is no Parquet file, or not all of one"):
        list(read_parquet(text))
    (tmp_path / "empty").touch()
    with pytest.raises(WireError, match="it is no Parquet file"):
        list(read_parquet(tmp_path / "empty"))
    with pytest.raises(WireError, match=r"recd.minibatch = None"):
        list(read_parquet(stored(tmp_path / "table", pa.record_batch({"offset": pa.array([1])}))))
    with pytest.raises(WireError, match="there is no column checksum"):
        list(read_parquet(stored(tmp_path / "bare", to_arrow(BATCH))))
    with pytest.raises(FileNotFoundError):
        list(read_parquet(tmp_path / "nowhere"))


def test_a_file_that_would_unpack_to_too_much_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    write_parquet(path, [BATCH])
    monkeypatch.setattr(parquet, "MAX_LINE_BYTES", 500)
    with pytest.raises(WireError, match=r"row group 0 unpacks to \d+ bytes of \d+ values, more than 500 bytes"):
        list(read_parquet(path))
    with pytest.raises(ValueError, match=r"mini-batch 0 has \d+ bytes, more than 500; split it"):
        write_parquet(path, [BATCH])


def test_a_damaged_footer_never_reaches_arrow(tmp_path: Path) -> None:
    whole = bytearray(GOLDEN.read_bytes())
    whole[-40] ^= 1
    (tmp_path / "f").write_bytes(whole)
    with pytest.raises(WireError, match="the footer is damaged: its CRC-32C does not match"):
        list(read_parquet(tmp_path / "f"))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_anywhere_in_a_file_is_refused_or_changes_nothing(data: st.DataObject) -> None:
    whole = GOLDEN.read_bytes()
    damaged = bytearray(whole)
    if data.draw(st.booleans()):
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del damaged[data.draw(st.integers(0, len(whole) - 1)) :]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        path.write_bytes(damaged)
        try:
            back = list(read_parquet(path))
        except WireError:
            return
    assert all(same_batch(a, b) for a, b in zip(back, read_parquet(GOLDEN), strict=True))


def test_the_forms_of_the_golden_batch_are_both_there() -> None:
    forms = [isinstance(group, PartialIkjt) for group in list(read_parquet(GOLDEN))[1].groups]
    assert forms == [False, False, True, False]
