"""Rate of negatives and stages on the wire: absent where they would say nothing new, refused where they cannot be."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from streams.errors import WireError
from streams.minibatch import MiniBatch
from streams.wire import decode, encode, peek
from streams.wire.layout import Kind
from tests.streams.batches import fixed_batch
from tests.streams.wire.test_codec import body_of, with_body

PLAIN = fixed_batch()
STAGES = np.asarray([0, 1, 2, 1, 0], np.uint8)
STAGED = replace(PLAIN, negative_rate=0.1, stage=STAGES)


def test_rate_and_stages_come_back_as_they_were() -> None:
    back = decode(encode(STAGED))
    assert back.negative_rate == 0.1
    assert back.stages.tolist() == STAGES.tolist()
    assert back.stages.dtype == np.uint8


def test_what_says_nothing_new_adds_no_byte_and_changes_no_hash() -> None:
    settled = replace(PLAIN, negative_rate=1.0, stage=np.zeros(5, np.uint8))
    assert encode(settled) == encode(PLAIN)
    assert settled.content_hash == PLAIN.content_hash
    assert decode(encode(settled)).stage is None
    assert peek(encode(STAGED)).num_sections == peek(encode(PLAIN)).num_sections + 2


def test_rate_and_stages_are_content() -> None:
    changed = [replace(PLAIN, negative_rate=0.1), replace(PLAIN, stage=STAGES), STAGED]
    changed.append(replace(PLAIN, stage=np.roll(STAGES, 1)))
    assert len({PLAIN.content_hash, *(batch.content_hash for batch in changed)}) == 5


def test_an_identity_names_stage_and_turned_labels() -> None:
    assert PLAIN.identities()[1] == (102, 5, 0, ())
    turned = replace(PLAIN, stage=np.full(5, 2, np.uint8)).identities()
    assert turned[1] == (102, 5, 2, (0,))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (replace(PLAIN, negative_rate=0.0), "negative_rate must lie above 0"),
        (replace(PLAIN, negative_rate=float("nan")), "negative_rate must lie above 0"),
        (replace(PLAIN, stage=STAGES[:4]), r"stage must be \[5\] uint8"),
        (replace(PLAIN, stage=STAGES.astype(np.int32)), r"stage must be \[5\] uint8"),
        (replace(PLAIN, stage=np.full(5, 3, np.uint8)), "stage 3 does not exist"),
    ],
)
def test_a_batch_with_a_rate_or_stage_that_cannot_be_is_not_written(batch: MiniBatch, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(batch)


def line_of(body: bytes, kind: Kind) -> int:
    """Where the line of a nameless section begins."""
    at = 0
    while body[at] != kind:
        at += 28 + struct.unpack_from("<H", body, at + 4)[0]
    return at


def damaged(batch: MiniBatch, kind: Kind, offset: int, replacement: bytes) -> bytes:
    message = encode(batch)
    body = bytearray(body_of(message))
    at = line_of(bytes(body), kind) + offset
    body[at : at + len(replacement)] = replacement
    return with_body(message, bytes(body))


ALL_PROVISIONAL = replace(PLAIN, stage=np.ones(5, np.uint8))
"""A constant: its value stands in the table."""


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (damaged(STAGED, Kind.NEGATIVE_RATE, 20, struct.pack("<d", 1.5)), "a rate of negatives of 1.5 does not exist"),
        (damaged(STAGED, Kind.NEGATIVE_RATE, 8, struct.pack("<I", 2)), "has 2 values, it needs one"),
        (damaged(ALL_PROVISIONAL, Kind.STAGE, 20, struct.pack("<q", 3)), "a stage that does not exist"),
        (damaged(ALL_PROVISIONAL, Kind.STAGE, 20, struct.pack("<q", -1)), "a stage that does not exist"),
        (damaged(ALL_PROVISIONAL, Kind.STAGE, 8, struct.pack("<I", 4)), "has 4 samples, the header 5"),
    ],
)
def test_a_message_that_says_what_cannot_be_is_refused(message: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        decode(message)
