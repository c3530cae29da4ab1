"""ProfileStore: profiles under a shelf and a user, and a tag that says which state of a shelf they are.

Owns the protocol and the tag's bytes. Never knows what is in a profile. All stores pass
one suite (`tests/state/test_profile_store_contract.py`).

A shelf is one partition's profiles. Whoever changes a shelf says which tag he expects there, and nothing happens under
another one: a worker that has lost its partition without noticing cannot spoil the shelf of its successor, and a store
that was emptied or put back to an older state is found out by the next call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from state.store import MISSING, Missing

TAG_VERSION: Final = 1


def shelf_name(changelog: str, partition: int) -> str:
    """The shelf that holds one partition of a changelog."""
    return f"recd/{changelog}/{partition}"


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """What a shelf holds: the changelog up to an offset."""

    topic: str
    """Identity of the changelog, not its name alone: a topic that was deleted and made anew is another one."""
    offset: int
    """First offset of the changelog's partition that is not in the shelf."""
    owner: int
    """Raised by every worker that takes the shelf over."""
    version: int = TAG_VERSION

    def encode(self) -> bytes:
        """As one line of JSON."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(data: bytes) -> Tag | Missing:
        """MISSING for what this version cannot read: the shelf is filled anew."""
        try:
            tag = msgspec.json.decode(data, type=Tag)
        except msgspec.MsgspecError:
            return MISSING
        return tag if tag.version == TAG_VERSION else MISSING


class ProfileStore(Protocol):
    """Where working copies of profiles are. Every call is a few commands, whatever the number of users.

    A server that does not answer raises RetryableError; a change may then have happened in part, under the old tag.
    """

    def read(self, shelf: str, users: Sequence[int]) -> tuple[bytes | Missing, list[bytes | Missing]]:
        """The tag, and the profile of each user in the order given, all under that tag.

        MISSING for the tag also where it changed while we read.
        """

    def write(self, shelf: str, values: Mapping[int, bytes | None], expected: bytes | Missing, tag: bytes) -> bool:
        """Set these profiles, remove those that are None, and put `tag` last; False where the tag is not `expected`."""

    def clear(self, shelf: str, expected: bytes | Missing, tag: bytes) -> bool:
        """Remove everything and put `tag`, in one act; False, and no change, where the tag is not `expected`."""
