"""Trained zstd dictionaries: what small messages have in common, kept outside of them.

Owns training and loading. A dictionary is bytes in zstd's own format, which carry its id; where they are kept is the
caller's affair. A message names the id of its dictionary in its zstd frame, and the header's flag says that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import zstandard

from streams.errors import WireError

DICTIONARY_BYTES: Final = 1 << 15
"""Size of a dictionary unless another is asked for: what a message of some hundred samples can gain from."""
_KEPT: Final = 8
"""Dictionaries that stay loaded."""

Provider = Callable[[int], bytes | None]
"""The dictionary of an id, or None where the reader does not have it."""


def train(bodies: Sequence[bytes], size: int, level: int) -> bytes:
    """A dictionary from what such messages contain. Raises ValueError if they are too few or too small for one."""
    try:
        trained = zstandard.train_dictionary(size, list(bodies), level=level)
    except zstandard.ZstdError as error:
        raise ValueError(f"no dictionary can be trained from {len(bodies)} messages: {error}; give it more") from error
    return trained.as_bytes()


@lru_cache(maxsize=_KEPT)
def loaded(dictionary: bytes) -> zstandard.ZstdCompressionDict:
    """Ready for use. Raises ValueError for bytes that are no dictionary with an id."""
    data = zstandard.ZstdCompressionDict(dictionary)
    if not data.dict_id():
        raise ValueError("these bytes are no trained zstd dictionary: they carry no id")
    return data


def dictionary_of(frame: memoryview) -> int:
    """The id that a zstd frame names. Raises WireError if it names none."""
    try:
        identity = zstandard.get_frame_parameters(frame).dict_id
    except zstandard.ZstdError as error:
        raise WireError(f"the body is no zstd frame: {error}") from error
    if not identity:
        raise WireError("the header announces a dictionary, the body names none")
    return identity


def provided(identity: int, provider: Provider | None) -> zstandard.ZstdCompressionDict:
    """The dictionary of a message. Raises WireError in words where the reader lacks it."""
    dictionary = None if provider is None else provider(identity)
    if dictionary is None:
        raise WireError(f"written with zstd dictionary {identity}, which this reader does not have: give it to decode")
    try:
        data = loaded(dictionary)
    except ValueError as error:
        raise WireError(f"what was given as zstd dictionary {identity} is none: {error}") from error
    if data.dict_id() != identity:
        raise WireError(f"written with zstd dictionary {identity}, given was {data.dict_id()}")
    return data
