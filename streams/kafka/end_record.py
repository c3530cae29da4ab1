"""The record that ends an epoch of a mini-batch partition. Pure; never produces or consumes anything.

The sessionizer writes one end record into **each** partition of the mini-batch topic, in the same transaction as
the last mini-batches of the epoch, when the end mark of that partition takes effect: a record without key and
with an empty value whose only recd header is `recd-end: <epoch>` (`end_record`). It has an offset but no
sequence: the next mini-batch of the partition continues the count. A reader tells it by `is_end`, before it
decodes anything, and knows by `epoch_of` which epoch ended. Events after an end mark open a new epoch; its
mini-batches simply follow the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streams.errors import WireError

END_HEADER: Final = "recd-end"

Headers = Iterable[tuple[str, str | bytes | None]]


def end_record(epoch: int) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Value and headers of the record that ends `epoch` of a partition."""
    return b"", [(END_HEADER, str(epoch).encode())]


def is_end(headers: Headers | None) -> bool:
    """Whether a record with these headers ends an epoch."""
    return any(key == END_HEADER for key, _ in headers or ())


def epoch_of(headers: Headers) -> int:
    """Epoch that the record ends. WireError when the header is no number."""
    for key, value in headers:
        if key == END_HEADER:
            try:
                return int(value or b"")
            except ValueError:
                raise WireError(
                    f"header {END_HEADER} holds {value!r}, which is no epoch; who else writes here?"
                ) from None
    raise WireError(f"the record has no header {END_HEADER}")
