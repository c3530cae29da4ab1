"""Trained dictionaries: smaller small messages, which say what they need and cannot be misread without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import zstandard

from streams.errors import WireError
from streams.minibatch import MiniBatch
from streams.wire import decode, encode, peek, train_dictionary
from streams.wire.layout import HEADER_BYTES
from tests.streams.batches import fixed_batch
from tests.streams.wire.test_codec import same_batch, with_header


def small_batch(seed: int) -> MiniBatch:
    """Labels, dense columns and times of its own; the groups of all are the same."""
    generator, batch = np.random.default_rng(seed), fixed_batch()
    return replace(
        batch,
        sequence=seed,
        labels=generator.integers(0, 2, (5, 1)).astype(np.float32),
        lineage=replace(batch.lineage, event_id=generator.integers(0, 2**63, 5).astype(np.uint64)),
    )


@pytest.fixture(scope="module")
def dictionary() -> bytes:
    return train_dictionary([encode(small_batch(seed)) for seed in range(100)], size=1024)


def test_a_message_with_a_dictionary_is_smaller_names_it_and_comes_back(dictionary: bytes) -> None:
    batch = small_batch(1000)
    message = encode(batch, dictionary=dictionary)
    named = zstandard.ZstdCompressionDict(dictionary).dict_id()
    assert len(message) < 0.8 * len(encode(batch))
    assert (message[5], peek(message).dictionary) == (3, named)
    asked: list[int] = []

    def provider(identity: int) -> bytes:
        asked.append(identity)
        return dictionary

    assert same_batch(decode(message, dictionary=provider), batch)
    assert asked == [named]


def test_a_message_without_a_dictionary_asks_for_none_and_is_the_same_as_ever() -> None:
    message = encode(fixed_batch())

    def provider(identity: int) -> bytes:
        raise AssertionError(identity)

    assert (message[5], peek(message).dictionary) == (1, 0)
    assert same_batch(decode(message, dictionary=provider), fixed_batch())


def test_a_reader_that_lacks_the_dictionary_says_which(dictionary: bytes) -> None:
    message = encode(fixed_batch(), dictionary=dictionary)
    named = peek(message).dictionary
    for provider in (None, lambda _: None):
        with pytest.raises(WireError, match=f"written with zstd dictionary {named}, which this reader does not have"):
            decode(message, dictionary=provider)
    with pytest.raises(WireError, match=f"written with zstd dictionary {named}"):
        train_dictionary([message])


def test_another_dictionary_or_none_at_all_is_refused(dictionary: bytes) -> None:
    message = encode(fixed_batch(), dictionary=dictionary)
    other = train_dictionary([encode(small_batch(seed)) for seed in range(200, 300)], size=1024)
    assert other != dictionary
    with pytest.raises(WireError, match=r"written with zstd dictionary \d+, given was \d+"):
        decode(message, dictionary=lambda _: other)
    with pytest.raises(WireError, match="carry no id"):
        decode(message, dictionary=lambda _: b"no dictionary")
    # The same id on other content: zstd's own checks, the table's or the sections' must notice, or it is a valid batch.
    forged = bytearray(dictionary)
    forged[-200:] = bytes(200)
    try:
        decode(message, dictionary=lambda _: bytes(forged)).validate()
    except WireError as error:
        assert str(error)  # noqa: PT017  (either outcome is right; any other exception fails the test)


def test_flags_that_lie_about_the_dictionary_are_refused(dictionary: bytes) -> None:
    with pytest.raises(WireError, match="the header announces a dictionary, the body names none"):
        decode(with_header(encode(fixed_batch()), 5, b"\x03"))
    with pytest.raises(WireError, match="cannot be decompressed"):
        decode(with_header(encode(fixed_batch(), dictionary=dictionary), 5, b"\x01"))
    with pytest.raises(WireError, match="version 1 with flags 2 does not exist"):
        decode(with_header(encode(fixed_batch()), 5, b"\x02"))


def test_damage_to_a_message_with_a_dictionary_is_refused(dictionary: bytes) -> None:
    message = encode(fixed_batch(), dictionary=dictionary)
    for position in range(len(message)):
        damaged = bytearray(message)
        damaged[position] ^= 1 << (position % 8)
        with pytest.raises(WireError):
            decode(bytes(damaged), dictionary=lambda _: dictionary)
        with pytest.raises(WireError):
            decode(message[:position], dictionary=lambda _: dictionary)


def test_too_few_messages_train_no_dictionary() -> None:
    with pytest.raises(ValueError, match="no dictionary can be trained from 1 messages"):
        train_dictionary([encode(fixed_batch())])
    with pytest.raises(WireError, match="cut off"):
        train_dictionary([b"RECD"])
    assert len(encode(fixed_batch())) > HEADER_BYTES
