"""What the wire's benchmark compares is the same samples, and its tensors own no memory."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.records import features_only, json_bytes, plain_ikjt_bytes, varint_bytes
from benchmarks.rm import STREAMS, Stream
from benchmarks.wire import as_kjt, kuairand, tensors, windowed
from streams.wire import encode
from tests.streams.wire.test_shared_ids import large_batch


def test_tensors_of_ids_lie_side_by_side_in_the_one_array_of_the_message() -> None:
    batch = large_batch()
    found = tensors(encode(batch))[2:]  # labels and dense come first
    values = [found[3 * group + 1] for group in range(len(batch.groups))]  # of inverse, values, offsets
    for left, right in pairwise(values):
        assert left.data_ptr() + left.numel() * left.element_size() == right.data_ptr()


def test_windows_and_expanded_rows_are_the_same_samples() -> None:
    stream = Stream(STREAMS["rm1"])
    batch = stream._batch(np.arange(64), 0)
    sent, plain = windowed(batch), as_kjt(batch)
    assert type(sent.groups[0]).__name__ == "PartialIkjt"
    for one, other in zip(sent.groups, plain.groups, strict=True):
        for key, rows in one.expand().items():
            assert np.array_equal(rows.values, other.features[key].values)


def test_every_naive_format_grows_with_the_samples() -> None:
    stream = Stream(STREAMS["rm3"])
    few, many = (features_only(stream._batch(np.arange(size), 0)) for size in (16, 64))
    for size in (varint_bytes, json_bytes, plain_ikjt_bytes):
        assert 0 < size(few, 3) < size(many, 3)


def test_data_that_are_not_there_are_said_to_be_not_there(tmp_path: Path) -> None:
    assert kuairand(tmp_path)["value"] is None
